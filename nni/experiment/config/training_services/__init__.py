"""Classes for the configurations of training services, such as local, remote and Kubernetes."""

from nni.experiment.config.training_services.platforms import (
    AmlConfig,
    DlcConfig,
    FrameworkAttemptCompletionPolicy,
    FrameworkControllerConfig,
    FrameworkControllerRoleConfig,
    K8sAzureStorageConfig,
    K8sNfsConfig,
    K8sStorageConfig,
    KubeflowConfig,
    KubeflowRoleConfig,
    KubernetesConfig,
    LocalConfig,
    OpenpaiConfig,
    RemoteConfig,
    RemoteMachineConfig,
)

__all__ = [
    "AmlConfig",
    "DlcConfig",
    "FrameworkAttemptCompletionPolicy",
    "FrameworkControllerConfig",
    "FrameworkControllerRoleConfig",
    "K8sAzureStorageConfig",
    "K8sNfsConfig",
    "K8sStorageConfig",
    "KubeflowConfig",
    "KubeflowRoleConfig",
    "KubernetesConfig",
    "LocalConfig",
    "OpenpaiConfig",
    "RemoteConfig",
    "RemoteMachineConfig",
]
