"""NNI's import path of NetworkMorphismTuner, which nnimgr does not have: an object cannot be created."""

from nni.algorithms.hpo._left_out import left_out, left_out_validator

__all__ = ["NetworkMorphismClassArgsValidator", "NetworkMorphismTuner"]

NetworkMorphismTuner = left_out("NetworkMorphismTuner")
NetworkMorphismClassArgsValidator = left_out_validator("NetworkMorphismTuner")
