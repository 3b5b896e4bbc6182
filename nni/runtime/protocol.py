"""NNI 2's import path of the commands between manager and advisor."""

from nnimgr.advisor import CommandType, send

__all__ = ["CommandType", "send"]
