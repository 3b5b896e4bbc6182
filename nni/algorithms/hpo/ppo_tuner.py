"""Placeholder for NNI's PPOTuner, which nnimgr does not have. Creating a PPOTuner raises an error."""

from nni.algorithms.hpo._left_out import left_out, left_out_validator

__all__ = ["PPOClassArgsValidator", "PPOTuner"]

PPOTuner = left_out("PPOTuner")
PPOClassArgsValidator = left_out_validator("PPOTuner")
