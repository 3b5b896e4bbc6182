"""NNI's platforms ``kubeflow`` and ``frameworkcontroller``: trials run as plain Jobs, or as gangs of them.

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
_NEVER_LEADS = "ps"  # TensorFlow's parameter servers, which do not end by themselves
_EXIT_BARRIER = "5s"  # the operators end all other pods as soon as the first one has succeeded


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
    replacement. ``gang``: the experiment's field ``gang`` if trials have several pods; ``role_origins``: the
    path of each of its roles in the user's configuration.
    """

    config: KubernetesConfig
    shared: dict[str, Any]
    origins: dict[str, tuple[str | int, ...]]
    sentence: str
    gang: dict[str, Any] | None
    role_origins: dict[str, tuple[str | int, ...]]


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

    def check_policy(self, *, leads: bool) -> None:
        """Raise ValueError if a gang cannot end as this role's policy demands. ``leads``: the role leads."""
        policy = self.framework_attempt_completion_policy or CompletionPolicy()
        failed, succeeded = policy.min_failed_task_count, policy.min_succeed_task_count
        if failed not in (None, 1):
            raise ValueError(
                f"'taskRoles': a trial of several pods fails when the first of them fails: set "
                f"minFailedTaskCount of {self.name} to 1, not {failed}"
            )
        if leads and succeeded not in (None, -1, 1, self.task_number):
            raise ValueError(
                f"'taskRoles': a trial of several pods succeeds with the first pod of {self.name}: set "
                f"minSucceedTaskCount of {self.name} to 1, not {succeeded}"
            )


class _Role(NamedTuple):
    """Role of the trials: its name, its path in the configuration, the number of its pods, and its fields."""

    name: str
    place: tuple[str | int, ...]
    pods: int
    config: RoleConfig


class _WithRoles(_Model, abc.ABC):
    """Configuration of kubeflow or frameworkcontroller, which is converted to plain Jobs.

    Trials of several pods become gangs, in which each pod is a member.
    """

    storage: Storage | None = None
    namespace: Namespace = "default"
    reuse_mode: bool = True

    title: ClassVar[str]

    @abc.abstractmethod
    def roles(self) -> list[_Role]:
        """Return the roles of the trials. The first one leads: its first pod decides how a trial ends."""

    @model_validator(mode="after")
    def _same_code(self) -> _WithRoles:
        if len({role.config.code_directory for role in self.roles()} - {None}) > 1:
            raise ValueError("all roles must have the same 'codeDirectory'")
        return self

    def as_jobs(self) -> AsJobs:
        roles = self.roles()
        leader, several = roles[0], sum(role.pods for role in roles) > 1
        shared = {
            name: ((*role.place, field), value)
            for role in reversed(roles)  # the leader's values count most
            for name, (field, value) in role.config.shared().items()
            if not several or name in ("trialCommand", "trialCodeDirectory")  # others are given for each role
        }
        config = KubernetesConfig(
            image=leader.config.docker_image,
            namespace=self.namespace,
            reuse_mode=self.reuse_mode and not several,
            service_account=self._service_account(),
            volumes=[] if self.storage is None else [self.storage.volume()],
        )
        mounted = "" if self.storage is None else f"; the NFS export is mounted at {_MOUNTED} in each pod"
        if several:
            names = ", ".join(f"{role.name} ({role.pods})" for role in roles)
            what = (
                f"each trial is a gang of the roles {names}, with a Job for each pod. It ends with the "
                f"first pod of {leader.name}, and fails if any pod fails before"
            )
        else:
            what = f"the role {leader.name} runs as plain Jobs, as with platform kubernetes"
        return AsJobs(
            config,
            {field: value for field, (_, value) in shared.items()},
            {field: origin for field, (origin, _) in shared.items()},
            f"{what}: {self.title} is not used, and code and results need no shared storage{mounted}",
            _gang(roles) if several else None,
            {role.name: role.place for role in roles} if several else {},
        )

    def _service_account(self) -> str | None:
        return None


def _gang(roles: list[_Role]) -> dict[str, Any]:
    """Return the field ``gang`` of an experiment whose trials have these roles."""
    found = {}
    for role in roles:
        given = {
            "command": role.config.command,
            "gpuNumber": role.config.gpu_number,
            "cpuNumber": role.config.cpu_number,
            "memorySize": role.config.memory_size,
            "image": role.config.docker_image,
        }
        own = {name: value for name, value in given.items() if value is not None}
        found[role.name] = {"replicas": role.pods, **own}
    return {"roles": found, "exitBarrier": _EXIT_BARRIER}


class KubeflowConfig(_WithRoles):
    platform: Literal["kubeflow"] = "kubeflow"
    operator: Literal["tf-operator", "pytorch-operator"]
    api_version: str | None = None  # without effect, because no operator is used
    worker: ReplicaConfig | None = None
    ps: ReplicaConfig | None = None
    master: ReplicaConfig | None = None

    title: ClassVar[str] = "Kubeflow's operator"

    @model_validator(mode="after")
    def _known_roles(self) -> KubeflowConfig:
        needed, foreign = ("worker", "master") if self.operator == "tf-operator" else ("master", "ps")
        if getattr(self, needed) is None:
            raise ValueError(f"the operator {self.operator} needs the role '{needed}'")
        if getattr(self, foreign) is not None:
            raise ValueError(f"the operator {self.operator} has no role '{foreign}'")
        return self

    def roles(self) -> list[_Role]:
        named = (("master", self.master), ("worker", self.worker), ("ps", self.ps))
        return [_Role(name, (name,), role.replicas, role) for name, role in named if role is not None]


class FrameworkControllerConfig(_WithRoles):
    platform: Literal["frameworkcontroller"] = "frameworkcontroller"
    service_account_name: Name | None = None
    task_roles: Annotated[list[TaskConfig], Field(min_length=1)]

    title: ClassVar[str] = "FrameworkController"

    @model_validator(mode="after")
    def _possible(self) -> FrameworkControllerConfig:
        names = [role.name for role in self.task_roles]
        if len(set(names)) < len(names):
            raise ValueError("two roles of 'taskRoles' have the same name")
        roles = self.roles()
        if sum(role.pods for role in roles) > 1:
            for number, role in enumerate(roles):
                assert isinstance(role.config, TaskConfig)
                role.config.check_policy(leads=number == 0)
        return self

    def roles(self) -> list[_Role]:
        roles = [
            _Role(role.name, ("taskRoles", number), role.task_number, role)
            for number, role in enumerate(self.task_roles)
        ]
        return sorted(roles, key=lambda role: role.name == _NEVER_LEADS)

    def _service_account(self) -> str | None:
        return self.service_account_name


PLATFORMS: dict[str, type[KubeflowConfig] | type[FrameworkControllerConfig]] = {
    "kubeflow": KubeflowConfig,
    "frameworkcontroller": FrameworkControllerConfig,
}
