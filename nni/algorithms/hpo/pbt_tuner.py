"""NNI's import path of population based training."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.pbt import PBTTuner

__all__ = ["PBTClassArgsValidator", "PBTTuner"]

PBTClassArgsValidator = validator("tuner", "PBT")
