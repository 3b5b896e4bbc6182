"""NNI's import path of grid search."""

from nnimgr.tuners.gridsearch import GridSearchTuner

__all__ = ["GridSearchTuner"]
