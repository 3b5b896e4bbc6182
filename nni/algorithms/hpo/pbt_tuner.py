"""NNI's import path of population based training."""

from nnimgr.tuners.pbt import PBTTuner

__all__ = ["PBTTuner"]
