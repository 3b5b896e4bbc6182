"""NNI's import path of what tuners and assessors have in common."""

from nnimgr.algorithm import Recoverable

__all__ = ["Recoverable"]
