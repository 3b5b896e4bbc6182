"""Placeholder for NNI's DNGOTuner, which nnimgr does not have. Creating a DNGOTuner raises an error."""

from nni.algorithms.hpo._left_out import left_out, left_out_validator

__all__ = ["DNGOClassArgsValidator", "DNGOTuner"]

DNGOTuner = left_out("DNGOTuner")
DNGOClassArgsValidator = left_out_validator("DNGOTuner")
