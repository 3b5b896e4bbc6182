"""The GridSearch tuner under its import path in NNI."""

from nnimgr.tuners.gridsearch import GridSearchTuner

__all__ = ["GridSearchTuner"]
