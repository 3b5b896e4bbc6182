"""NNI's import path of the configuration of remote machines."""

from nni.experiment.config.training_services.platforms import RemoteConfig, RemoteMachineConfig

__all__ = ["RemoteConfig", "RemoteMachineConfig"]
