"""NNI's import path of random search."""

from nnimgr.tuners.random import RandomTuner

__all__ = ["RandomTuner"]
