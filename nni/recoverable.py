"""The class ``Recoverable``, the base of tuners and assessors, under its import path in NNI."""

from nnimgr.algorithm import Recoverable

__all__ = ["Recoverable"]
