"""Platforms of NNI that nnimgr cannot run.

Their fields are checked, and translated to a platform that nnimgr runs, as a suggestion to the user. The
fields are those of NNI's ``config/training_services``. Those of adl, paiYarn and dlts are from NNI's first
configuration format.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, SecretStr, model_validator
from pydantic.alias_generators import to_camel

from nnimgr.config.values import CpuNumber, MemorySize

__all__ = ["FOREIGN_PLATFORMS", "ForeignPlatform"]

_NNI_IMAGE = "msranni/nni:latest"
_Count = Annotated[int, Field(gt=0)]


def _http_host(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be the address of a service")
    return value


class ForeignPlatform(BaseModel):
    """Fields of a platform that nnimgr cannot run. ``why``: one sentence that says what replaces it."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )

    platform: str
    docker_image: str = _NNI_IMAGE
    trial_cpu_number: CpuNumber | None = None
    trial_memory_size: MemorySize | None = None

    why: ClassVar[str]

    def section(self) -> dict[str, Any]:
        """Return the ``trainingService`` section that the user can write instead of this platform."""
        found: dict[str, Any] = {"platform": "kubernetes", "image": self.docker_image}
        if self.trial_cpu_number is not None:
            found["trialCpuNumber"] = self.trial_cpu_number
        if self.trial_memory_size is not None:
            found["trialMemorySize"] = self.trial_memory_size
        return found


class _Storage(ForeignPlatform):
    """Fields of a storage that is mounted both on the server's machine and in the containers of trials."""

    local_storage_mount_point: Path
    container_storage_mount_point: str


class _OpenPai(_Storage):
    platform: Literal["openpai", "pai"]
    host: Annotated[str, PlainValidator(_http_host)]
    username: str
    token: SecretStr
    storage_config_name: str
    virtual_cluster: str | None = None
    reuse_mode: bool = True
    openpai_config: dict[str, Any] | None = None
    openpai_config_file: Path | None = None

    why: ClassVar[str] = (
        "OpenPAI runs on a Kubernetes cluster, and platform kubernetes uses the API of this cluster "
        "directly; results and code need no shared storage, and other data is mounted with the field volumes"
    )

    @model_validator(mode="after")
    def _one_config(self) -> _OpenPai:
        if self.openpai_config is not None and self.openpai_config_file is not None:
            raise ValueError("give one of 'openpaiConfig' and 'openpaiConfigFile'")
        return self


class _PaiYarn(ForeignPlatform):
    platform: Literal["paiYarn"]
    host: str | None = None
    username: str | None = None
    token: SecretStr | None = None
    virtual_cluster: str | None = None

    why: ClassVar[str] = (
        "jobs of YARN cannot be submitted; platform remote runs trials on machines of the cluster over SSH"
    )

    def section(self) -> dict[str, Any]:
        machine = {"host": "<a machine of the cluster>", "user": self.username or "<your name there>"}
        return {"platform": "remote", "machineList": [machine]}


class _Aml(ForeignPlatform):
    platform: Literal["aml"]
    subscription_id: str
    resource_group: str
    workspace_name: str
    compute_target: str
    max_trial_number_per_gpu: _Count = 1

    why: ClassVar[str] = (
        "jobs of Azure Machine Learning cannot be submitted; platform kubernetes runs the same image in a "
        "cluster of the Azure Kubernetes Service, or in any other"
    )


class _Dlc(_Storage):
    platform: Literal["dlc"]
    type: str = "Worker"
    image: str
    job_type: str = "TFJob"
    pod_count: _Count
    ecs_spec: str
    region: str
    workspace_id: str
    nas_data_source_id: str
    oss_data_source_id: str | None = None
    access_key_id: SecretStr
    access_key_secret: SecretStr

    why: ClassVar[str] = (
        "jobs of Alibaba's PAI-DLC cannot be submitted; platform kubernetes runs the same image in any "
        "cluster"
    )

    def section(self) -> dict[str, Any]:
        return {**super().section(), "image": self.image}


class _PullSecret(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str


class _Nfs(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)

    server: str
    path: str
    container_mount_path: str


class _Adl(ForeignPlatform):
    platform: Literal["adl"]
    namespace: str | None = None
    image_pull_secrets: list[_PullSecret] = Field(default_factory=list)
    nfs: _Nfs | None = None
    adaptive: bool = False
    checkpoint: dict[str, Any] | None = None

    why: ClassVar[str] = (
        "jobs of AdaptDL cannot be submitted; platform kubernetes runs each trial as a plain Job in the same "
        "cluster"
    )

    def section(self) -> dict[str, Any]:
        found = super().section()
        if self.namespace is not None:
            found["namespace"] = self.namespace
        if self.image_pull_secrets:
            found["imagePullSecrets"] = [secret.name for secret in self.image_pull_secrets]
        if self.nfs is not None:
            export = {"server": self.nfs.server, "path": self.nfs.path}
            found["volumes"] = [{"name": "nfs", "mountPath": self.nfs.container_mount_path, "nfs": export}]
        return found


class _Dlts(ForeignPlatform):
    platform: Literal["dlts"]
    dashboard: str
    cluster: str | None = None
    team: str | None = None
    email: str | None = None
    password: SecretStr | None = None

    why: ClassVar[str] = (
        "jobs of the Deep Learning Training Service cannot be submitted; platform kubernetes runs the same "
        "image in its cluster"
    )


FOREIGN_PLATFORMS: Mapping[str, type[ForeignPlatform]] = {
    "openpai": _OpenPai,
    "pai": _OpenPai,
    "paiYarn": _PaiYarn,
    "aml": _Aml,
    "dlc": _Dlc,
    "adl": _Adl,
    "dlts": _Dlts,
}
