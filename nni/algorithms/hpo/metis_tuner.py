"""NNI's import path of Metis."""

from nnimgr.tuners.metis import MetisTuner

__all__ = ["MetisTuner"]
