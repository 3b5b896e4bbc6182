"""NNI's import path of SMAC."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.smac import SMACTuner

__all__ = ["SMACClassArgsValidator", "SMACTuner"]

SMACClassArgsValidator = validator("tuner", "SMAC")
