"""NNI's import path of the configuration of OpenPAI."""

from nni.experiment.config.training_services.platforms import OpenpaiConfig

__all__ = ["OpenpaiConfig"]
