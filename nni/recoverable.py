"""NNI's import path of the base class of tuners and assessors."""

from nnimgr.algorithm import Recoverable

__all__ = ["Recoverable"]
