"""The GP tuner (Gaussian process) under its import path in NNI."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.gp import GPTuner

__all__ = ["GPClassArgsValidator", "GPTuner"]

GPClassArgsValidator = validator("tuner", "GP")
