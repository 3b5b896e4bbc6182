"""The configuration classes of machines over SSH under their import path in NNI."""

from nni.experiment.config.training_services.platforms import RemoteConfig, RemoteMachineConfig

__all__ = ["RemoteConfig", "RemoteMachineConfig"]
