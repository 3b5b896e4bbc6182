"""The configuration class of Azure Machine Learning under its import path in NNI."""

from nni.experiment.config.training_services.platforms import AmlConfig

__all__ = ["AmlConfig"]
