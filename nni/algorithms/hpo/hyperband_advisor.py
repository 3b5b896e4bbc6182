"""NNI's import path of Hyperband."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.hyperband import Hyperband

__all__ = ["Hyperband", "HyperbandClassArgsValidator"]

HyperbandClassArgsValidator = validator("tuner", "Hyperband")
