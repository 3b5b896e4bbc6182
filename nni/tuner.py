"""NNI's import path of the tuner's base class."""

from nnimgr.algorithm import Tuner

__all__ = ["Tuner"]
