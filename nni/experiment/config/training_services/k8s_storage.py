"""The configuration classes of a Kubernetes cluster's storage under their import path in NNI."""

from nni.experiment.config.training_services.platforms import (
    K8sAzureStorageConfig,
    K8sNfsConfig,
    K8sStorageConfig,
)

__all__ = ["K8sAzureStorageConfig", "K8sNfsConfig", "K8sStorageConfig"]
