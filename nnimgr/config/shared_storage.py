"""The field ``sharedStorage``: a directory that all machines have mounted, for the output of trials."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from nnimgr.config.parsing import Reading, match_key, parse, validate
from training_services.base import SharedFolder
from training_services.platform import describe

if TYPE_CHECKING:
    from nnimgr.config.model import ExperimentConfig

__all__ = ["SharedStorageConfig", "check_shared_storage", "shared_folder"]

_AT = "sharedStorage"


class StorageType(StrEnum):
    NFS = "NFS"
    AZURE_BLOB = "AzureBlob"


class LocalMounted(StrEnum):
    """Who mounts the storage on the server's machine: the user, NNI, or nobody."""

    USER = "usermount"
    NNI = "nnimount"
    NOBODY = "nomount"


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"must be an absolute path, not {path!r}")
    return path.rstrip("/") or "/"


class SharedStorageConfig(BaseModel):
    """Storage that all machines share.

    ``localMountPoint``: its directory on the server's machine. ``remoteMountPoint``: its directory on the
    other machines. Fields of NFS and Azure are accepted, because files for NNI have them.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    storage_type: StorageType
    local_mount_point: Annotated[str, AfterValidator(_absolute)]
    remote_mount_point: Annotated[str, AfterValidator(_absolute)]
    local_mounted: LocalMounted
    nfs_server: str | None = None
    exported_directory: str | None = None
    storage_account_name: str | None = None
    storage_account_key: str | None = None
    container_name: str | None = None


def check_shared_storage(reading: Reading, config: ExperimentConfig | None) -> None:
    """Report errors in ``sharedStorage`` that would prevent trials from using the storage."""
    if config is None or config.shared_storage is None:
        return
    before = len(reading.problems)
    fields = parse(reading, config.shared_storage, SharedStorageConfig, (_AT,))
    found = None if fields is None else validate(reading, SharedStorageConfig, fields, (_AT,))
    if found is None or len(reading.problems) > before:
        return
    if found.storage_type is StorageType.AZURE_BLOB:
        sentence = "nnimgr does not mount this storage: mount it on all machines, and write NFS and usermount"
        reading.fault((_AT, "storageType"), sentence)
    for member in config.members:
        if not describe(member.service).shares_storage:
            reading.fault(
                (_AT,), f"trials on {member.platform} cannot use a shared storage: remove the field"
            )
    here = any(describe(member.service).beside_server for member in config.members)
    if found.local_mounted is LocalMounted.NNI:
        sentence = "nnimgr does not mount storage, which needs root: mount it yourself, and write usermount"
        reading.fault((_AT, "localMounted"), sentence)
    elif found.local_mounted is LocalMounted.NOBODY and here:
        sentence = "trials on this machine need the storage: mount it here, and write usermount"
        reading.fault((_AT, "localMounted"), sentence)
    elif here and not Path(found.local_mount_point).is_dir():
        sentence = f"there is no directory {found.local_mount_point} on this machine"
        reading.fault((_AT, "localMountPoint"), sentence)


def shared_folder(config: ExperimentConfig) -> SharedFolder | None:
    """Return the directories where an experiment's shared storage is mounted.

    Return None if there is no storage that trials can use.
    """
    written = {match_key(str(key)): value for key, value in (config.shared_storage or {}).items()}
    names = {match_key(name): to_camel(name) for name in SharedStorageConfig.model_fields}
    try:
        found = SharedStorageConfig.model_validate(
            {names.get(key, key): value for key, value in written.items()}
        )
    except ValidationError:
        return None
    if found.storage_type is not StorageType.NFS:
        return None
    return SharedFolder(local=found.local_mount_point, remote=found.remote_mount_point)
