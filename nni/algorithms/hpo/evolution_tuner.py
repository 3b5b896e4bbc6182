"""The Evolution tuner under its import path in NNI."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.evolution import EvolutionTuner

__all__ = ["EvolutionClassArgsValidator", "EvolutionTuner"]

EvolutionClassArgsValidator = validator("tuner", "Evolution")
