"""NNI's import path of the configuration of local trials."""

from nni.experiment.config.training_services.platforms import LocalConfig

__all__ = ["LocalConfig"]
