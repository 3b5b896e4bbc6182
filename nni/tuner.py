"""The base class of tuners under its import path in NNI."""

from nnimgr.algorithm import Tuner

__all__ = ["Tuner"]
