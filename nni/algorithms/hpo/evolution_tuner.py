"""NNI's import path of evolution."""

from nnimgr.tuners.evolution import EvolutionTuner

__all__ = ["EvolutionTuner"]
