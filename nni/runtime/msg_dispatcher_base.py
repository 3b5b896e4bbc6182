"""NNI's import path of the base class of advisors."""

from nnimgr.advisor import Advisor as MsgDispatcherBase

__all__ = ["MsgDispatcherBase"]
