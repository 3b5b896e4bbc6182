"""NNI's import path of batches."""

from nnimgr.tuners.batch import BatchTuner

__all__ = ["BatchTuner"]
