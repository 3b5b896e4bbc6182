"""The SMAC tuner under its import path in NNI."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.smac import SMACTuner

__all__ = ["SMACClassArgsValidator", "SMACTuner"]

SMACClassArgsValidator = validator("tuner", "SMAC")
