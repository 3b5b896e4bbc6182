"""The class ``OptimizeMode``, minimize or maximize, under its import path in NNI."""

from nnimgr.algorithm import OptimizeMode

__all__ = ["OptimizeMode"]
