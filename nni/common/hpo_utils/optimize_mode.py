"""NNI's import path of the direction in which results improve."""

from nnimgr.algorithm import OptimizeMode

__all__ = ["OptimizeMode"]
