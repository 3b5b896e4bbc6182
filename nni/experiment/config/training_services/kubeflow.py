"""The configuration classes of Kubeflow under their import path in NNI."""

from nni.experiment.config.training_services.platforms import KubeflowConfig, KubeflowRoleConfig

__all__ = ["KubeflowConfig", "KubeflowRoleConfig"]
