"""NNI's platforms ``kubeflow`` and ``frameworkcontroller``: trials with one role are run as plain Jobs.

NNI needed an operator in the cluster, and an NFS server that was also mounted on the manager's machine. Here
neither is needed: the keeper exchanges code and results with the server. An NFS export in the configuration
is mounted only in the trials' containers, because trials may use it.
"""

from __future__ import annotations

import abc
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, model_validator
from pydantic.alias_generators import to_camel

from training_services.kubernetes.config import (
    Image,
    KubernetesConfig,
    MountPath,
    Name,
    Namespace,
    NfsExport,
    PodVolume,
    Text,
)
from training_services.units import parse_cpu_number, parse_gpu_number, parse_size

__all__ = ["PLATFORMS", "AsJobs", "FrameworkControllerConfig", "KubeflowConfig", "RoleConfig"]

_MOUNTED = "/tmp/mount"  # mount path in NNI's containers


def _size(value: Any) -> str | int:
    parse_size(value)
    return value  # type: ignore[no-any-return]


_Gpus = Annotated[int | float, PlainValidator(parse_gpu_number)]
_Cpus = Annotated[int | float, PlainValidator(parse_cpu_number)]
_Size = Annotated[str | int, PlainValidator(_size)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )


class AsJobs(NamedTuple):
    """Kubernetes configuration that replaces one for NNI's platforms kubeflow or frameworkcontroller.

    ``shared``: values of fields that all training services have, by field name; ``origins``: for each of
    these fields, its path in the user's configuration; ``sentence``: a note for the user about the
    replacement.
    """

    config: KubernetesConfig
    shared: dict[str, Any]
    origins: dict[str, tuple[str | int, ...]]
    sentence: str


class Storage(_Model):
    storage_type: Literal["nfs", "azureStorage"]
    storage: str | None = None  # without effect; allowed because NNI allows this field
    server: Text | None = None
    path: MountPath | None = None
    azure_account: str | None = None
    azure_share: str | None = None
    key_vault_name: str | None = None
    key_vault_key: str | None = None

    @model_validator(mode="after")
    def _usable(self) -> Storage:
        if self.storage_type == "azureStorage":
            raise ValueError(
                "storage of the type azureStorage cannot be mounted: code and results need no storage, so "
                "remove it, or mount a share with platform kubernetes and its field volumes"
            )
        if self.server is None or self.path is None:
            raise ValueError("storage of the type nfs needs 'server' and 'path'")
        if any((self.azure_account, self.azure_share, self.key_vault_name, self.key_vault_key)):
            raise ValueError("the fields of Azure are not allowed with storage of the type nfs")
        return self

    def volume(self) -> PodVolume:
        assert self.server is not None and self.path is not None  # validated
        return PodVolume(name="nfs", mount_path=_MOUNTED, nfs=NfsExport(server=self.server, path=self.path))


class RoleConfig(_Model):
    """Fields that NNI's platforms have for each role (a group of equal pods, such as "worker")."""

    command: Annotated[str, Field(min_length=1)] | None = None
    docker_image: Image = "msranni/nni:latest"
    code_directory: Path | None = None
    gpu_number: _Gpus | None = None
    cpu_number: _Cpus | None = None
    memory_size: _Size | None = None

    def shared(self) -> dict[str, tuple[str, Any]]:
        """Return values for the fields that all training services have, such as trialCommand.

        Each field is mapped to its name in the role and its value there.
        """
        said = {
            "trialCommand": ("command", self.command),
            "trialCodeDirectory": ("codeDirectory", self.code_directory),
            "trialGpuNumber": ("gpuNumber", self.gpu_number),
            "trialCpuNumber": ("cpuNumber", self.cpu_number),
            "trialMemorySize": ("memorySize", self.memory_size),
        }
        return {name: (field, value) for name, (field, value) in said.items() if value is not None}


class ReplicaConfig(RoleConfig):
    replicas: Annotated[int, Field(gt=0)] = 1


class CompletionPolicy(_Model):
    """Numbers of tasks that decide the result of a trial. They have no effect with a single task."""

    min_failed_task_count: int | None = None
    min_succeed_task_count: int | None = None


class TaskConfig(RoleConfig):
    name: str
    task_number: Annotated[int, Field(gt=0)] = 1
    framework_attempt_completion_policy: CompletionPolicy | None = None


class _WithRoles(_Model, abc.ABC):
    """Configuration of kubeflow or frameworkcontroller, which is converted to plain Jobs."""

    storage: Storage | None = None
    namespace: Namespace = "default"
    reuse_mode: bool = True

    title: ClassVar[str]

    @abc.abstractmethod
    def role(self) -> tuple[str, tuple[str | int, ...], RoleConfig]:
        """Return the only role of the trials: its name, its path in the configuration, and its fields."""

    def as_jobs(self) -> AsJobs:
        name, place, role = self.role()
        shared = role.shared()
        config = KubernetesConfig(
            image=role.docker_image,
            namespace=self.namespace,
            reuse_mode=self.reuse_mode,
            service_account=self._service_account(),
            volumes=[] if self.storage is None else [self.storage.volume()],
        )
        mounted = "" if self.storage is None else f"; the NFS export is mounted at {_MOUNTED} in each pod"
        return AsJobs(
            config,
            {field: value for field, (_, value) in shared.items()},
            {field: (*place, written) for field, (written, _) in shared.items()},
            f"the role {name} runs as plain Jobs, as with platform kubernetes: {self.title} is not used, and "
            f"code and results need no shared storage{mounted}",
        )

    def _service_account(self) -> str | None:
        return None


def _refuse_several(found: list[tuple[str, int]], count: str) -> None:
    """Raise ValueError if there are several roles or pods. ``found``: each role with its number of pods."""
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise ValueError(
            f"trials of several roles ({names}) are not supported: give one role, which runs as plain Jobs"
        )
    for name, pods in found:
        if pods > 1:
            raise ValueError(
                f"trials of several pods ({name} has {count}: {pods}) are not supported: set {count}: 1"
            )


class KubeflowConfig(_WithRoles):
    platform: Literal["kubeflow"] = "kubeflow"
    operator: Literal["tf-operator", "pytorch-operator"]
    api_version: str | None = None  # without effect, because no operator is used
    worker: ReplicaConfig | None = None
    ps: ReplicaConfig | None = None
    master: ReplicaConfig | None = None

    title: ClassVar[str] = "Kubeflow's operator"

    @model_validator(mode="after")
    def _single(self) -> KubeflowConfig:
        needed, foreign = ("worker", "master") if self.operator == "tf-operator" else ("master", "ps")
        if getattr(self, needed) is None:
            raise ValueError(f"the operator {self.operator} needs the role '{needed}'")
        if getattr(self, foreign) is not None:
            raise ValueError(f"the operator {self.operator} has no role '{foreign}'")
        _refuse_several([(name, role.replicas) for name, role in self._roles()], "replicas")
        return self

    def _roles(self) -> list[tuple[str, ReplicaConfig]]:
        named = (("worker", self.worker), ("ps", self.ps), ("master", self.master))
        return [(name, role) for name, role in named if role is not None]

    def role(self) -> tuple[str, tuple[str | int, ...], RoleConfig]:
        ((name, role),) = self._roles()
        return name, (name,), role


class FrameworkControllerConfig(_WithRoles):
    platform: Literal["frameworkcontroller"] = "frameworkcontroller"
    service_account_name: Name | None = None
    task_roles: Annotated[list[TaskConfig], Field(min_length=1)]

    title: ClassVar[str] = "FrameworkController"

    @model_validator(mode="after")
    def _single(self) -> FrameworkControllerConfig:
        _refuse_several([(role.name, role.task_number) for role in self.task_roles], "taskNumber")
        return self

    def role(self) -> tuple[str, tuple[str | int, ...], RoleConfig]:
        (role,) = self.task_roles
        return role.name, ("taskRoles", 0), role

    def _service_account(self) -> str | None:
        return self.service_account_name


PLATFORMS: dict[str, type[KubeflowConfig] | type[FrameworkControllerConfig]] = {
    "kubeflow": KubeflowConfig,
    "frameworkcontroller": FrameworkControllerConfig,
}
