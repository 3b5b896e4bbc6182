"""The BOHB advisor under its import path in NNI."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.bohb import BOHB

__all__ = ["BOHB", "BOHBClassArgsValidator"]

BOHBClassArgsValidator = validator("tuner", "BOHB")
