"""The configuration class of OpenPAI under its import path in NNI."""

from nni.experiment.config.training_services.platforms import OpenpaiConfig

__all__ = ["OpenpaiConfig"]
