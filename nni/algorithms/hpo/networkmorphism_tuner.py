"""Placeholder for NNI's NetworkMorphismTuner, which nnimgr does not have. Creating an object raises
an error.
"""

from nni.algorithms.hpo._left_out import left_out, left_out_validator

__all__ = ["NetworkMorphismClassArgsValidator", "NetworkMorphismTuner"]

NetworkMorphismTuner = left_out("NetworkMorphismTuner")
NetworkMorphismClassArgsValidator = left_out_validator("NetworkMorphismTuner")
