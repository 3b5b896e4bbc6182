"""The PBT tuner (population based training) under its import path in NNI."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.pbt import PBTTuner

__all__ = ["PBTClassArgsValidator", "PBTTuner"]

PBTClassArgsValidator = validator("tuner", "PBT")
