"""NNI's import path of GP."""

from nnimgr.tuners.gp import GPTuner

__all__ = ["GPTuner"]
