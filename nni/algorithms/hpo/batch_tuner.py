"""NNI's import path of the tuner Batch."""

from nnimgr.tuners.batch import BatchTuner

__all__ = ["BatchTuner"]
