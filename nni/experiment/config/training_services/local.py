"""The configuration class of trials on this machine under its import path in NNI."""

from nni.experiment.config.training_services.platforms import LocalConfig

__all__ = ["LocalConfig"]
