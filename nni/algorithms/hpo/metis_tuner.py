"""The Metis tuner under its import path in NNI."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.metis import MetisTuner

__all__ = ["MetisClassArgsValidator", "MetisTuner"]

MetisClassArgsValidator = validator("tuner", "Metis")
