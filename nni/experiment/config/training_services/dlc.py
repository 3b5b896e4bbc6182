"""The configuration class of Aliyun's PAI-DLC under its import path in NNI."""

from nni.experiment.config.training_services.platforms import DlcConfig

__all__ = ["DlcConfig"]
