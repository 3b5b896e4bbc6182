"""NNI's import path of RegularizedEvolutionTuner, which nnimgr does not have: an object cannot be created."""

from nni.algorithms.hpo._left_out import left_out, left_out_validator

__all__ = ["EvolutionClassArgsValidator", "RegularizedEvolutionTuner"]

RegularizedEvolutionTuner = left_out("RegularizedEvolutionTuner")
EvolutionClassArgsValidator = left_out_validator("RegularizedEvolutionTuner")
