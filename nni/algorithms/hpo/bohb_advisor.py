"""NNI's import path of BOHB."""

from nnimgr.tuners.bohb import BOHB

__all__ = ["BOHB"]
