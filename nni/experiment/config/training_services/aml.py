"""NNI's import path of the configuration of Azure Machine Learning."""

from nni.experiment.config.training_services.platforms import AmlConfig

__all__ = ["AmlConfig"]
