"""NNI's import path of evolution."""

from nni.algorithms.hpo._validators import validator
from nnimgr.tuners.evolution import EvolutionTuner

__all__ = ["EvolutionClassArgsValidator", "EvolutionTuner"]

EvolutionClassArgsValidator = validator("tuner", "Evolution")
