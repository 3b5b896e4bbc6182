"""The Hyperband advisor under its import path in NNI."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.hyperband import Hyperband

__all__ = ["Hyperband", "HyperbandClassArgsValidator"]

HyperbandClassArgsValidator = validator("tuner", "Hyperband")
