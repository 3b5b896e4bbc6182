"""NNI's import path of BOHB."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.bohb import BOHB

__all__ = ["BOHB", "BOHBClassArgsValidator"]

BOHBClassArgsValidator = validator("tuner", "BOHB")
