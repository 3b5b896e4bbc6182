"""NNI 3's import path of the commands between manager and advisor."""

from nnimgr.advisor import CommandType

__all__ = ["CommandType"]
