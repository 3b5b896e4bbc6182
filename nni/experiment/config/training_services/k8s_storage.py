"""NNI's import path of the configuration of a cluster's storage."""

from nni.experiment.config.training_services.platforms import (
    K8sAzureStorageConfig,
    K8sNfsConfig,
    K8sStorageConfig,
)

__all__ = ["K8sAzureStorageConfig", "K8sNfsConfig", "K8sStorageConfig"]
