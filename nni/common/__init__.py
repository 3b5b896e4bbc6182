"""Helpers that NNI's algorithms share."""

from nni._trace import dump, is_traceable, load, trace

__all__ = ["dump", "is_traceable", "load", "trace"]
