"""NNI's import path of the configuration of PAI-DLC."""

from nni.experiment.config.training_services.platforms import DlcConfig

__all__ = ["DlcConfig"]
