"""NNI's import path of Hyperband."""

from nnimgr.tuners.hyperband import Hyperband

__all__ = ["Hyperband"]
