"""NNI's import path of the configuration of Kubeflow."""

from nni.experiment.config.training_services.platforms import KubeflowConfig, KubeflowRoleConfig

__all__ = ["KubeflowConfig", "KubeflowRoleConfig"]
