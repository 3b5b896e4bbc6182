"""The Batch tuner under its import path in NNI."""

from nnimgr.tuners.batch import BatchTuner

__all__ = ["BatchTuner"]
