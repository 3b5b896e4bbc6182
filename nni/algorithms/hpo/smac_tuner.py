"""NNI's import path of SMAC."""

from nnimgr.tuners.smac import SMACTuner

__all__ = ["SMACTuner"]
