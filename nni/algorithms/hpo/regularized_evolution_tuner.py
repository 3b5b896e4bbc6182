"""Placeholder for NNI's RegularizedEvolutionTuner, which nnimgr does not have.

Creating an object raises an error.
"""

from nni.algorithms.hpo._left_out import left_out, left_out_validator

__all__ = ["EvolutionClassArgsValidator", "RegularizedEvolutionTuner"]

RegularizedEvolutionTuner = left_out("RegularizedEvolutionTuner")
EvolutionClassArgsValidator = left_out_validator("RegularizedEvolutionTuner")
