"""Classes that describe an experiment's configuration in Python, named as in NNI."""

from nni.experiment.config.algorithm import AlgorithmConfig, CustomAlgorithmConfig
from nni.experiment.config.base import ConfigBase, InvalidConfig
from nni.experiment.config.experiment_config import ExperimentConfig
from nni.experiment.config.shared_storage import AzureBlobConfig, NfsConfig, SharedStorageConfig
from nni.experiment.config.training_service import TrainingServiceConfig
from nni.experiment.config.training_services import (
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
    "AlgorithmConfig",
    "AmlConfig",
    "AzureBlobConfig",
    "ConfigBase",
    "CustomAlgorithmConfig",
    "DlcConfig",
    "ExperimentConfig",
    "FrameworkAttemptCompletionPolicy",
    "FrameworkControllerConfig",
    "FrameworkControllerRoleConfig",
    "InvalidConfig",
    "K8sAzureStorageConfig",
    "K8sNfsConfig",
    "K8sStorageConfig",
    "KubeflowConfig",
    "KubeflowRoleConfig",
    "KubernetesConfig",
    "LocalConfig",
    "NfsConfig",
    "OpenpaiConfig",
    "RemoteConfig",
    "RemoteMachineConfig",
    "SharedStorageConfig",
    "TrainingServiceConfig",
]
