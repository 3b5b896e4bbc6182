"""Helper functions that the modules of NNI share."""

from nni._trace import dump, is_traceable, load, trace

__all__ = ["dump", "is_traceable", "load", "trace"]
