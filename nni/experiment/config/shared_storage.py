"""Configuration of a storage that the trials of all machines share."""

from __future__ import annotations

from dataclasses import dataclass

from nni.experiment.config.base import ConfigBase
from nni.experiment.config.utils import PathLike

__all__ = ["AzureBlobConfig", "NfsConfig", "SharedStorageConfig"]


@dataclass(init=False, kw_only=True)
class SharedStorageConfig(ConfigBase):
    """Fields that both kinds of shared storage have."""

    storage_type: str
    local_mount_point: PathLike
    remote_mount_point: str
    local_mounted: str
    storage_account_name: str | None = None
    storage_account_key: str | None = None
    container_name: str | None = None
    nfs_server: str | None = None
    exported_directory: str | None = None


@dataclass(init=False, kw_only=True)
class NfsConfig(SharedStorageConfig):
    """Configuration of a directory on an NFS server as shared storage."""

    storage_type: str = "NFS"
    nfs_server: str
    exported_directory: str


@dataclass(init=False, kw_only=True)
class AzureBlobConfig(SharedStorageConfig):
    """Configuration of a container in an Azure storage account as shared storage. nnimgr refuses to start an
    experiment with it.
    """

    storage_type: str = "AzureBlob"
    storage_account_name: str
    storage_account_key: str | None = None
    container_name: str
