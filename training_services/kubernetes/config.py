"""Configuration of the platform: ``trainingService`` with ``platform: kubernetes``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from training_services.kubernetes import syntax
from training_services.kubernetes.syntax import OWN_FOLDER, OWN_LABELS, OWN_VARIABLES, OWN_VOLUMES
from training_services.kubernetes.template import check_affinity, check_template
from training_services.platform import KeyPath, PlatformConfig
from training_services.units import parse_duration

__all__ = [
    "CodeSource",
    "EnvironmentSource",
    "EnvironmentValue",
    "EnvironmentValues",
    "Image",
    "KubernetesConfig",
    "MountPath",
    "Name",
    "Namespace",
    "NfsExport",
    "PodVolume",
    "PullPolicy",
    "Resources",
    "Text",
    "Toleration",
    "check_image",
]

_IMAGE = re.compile(
    r"(?:(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::\d+)?/)?"  # optional part: the registry
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::\w[\w.-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,})?",
    re.ASCII,
)


class PullPolicy(StrEnum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class TolerationOperator(StrEnum):
    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


def _duration(value: Any) -> str | int:
    parse_duration(value)
    return value  # type: ignore[no-any-return]


def check_image(value: str) -> str:
    """Raise ValueError if the text is not a valid name of an image."""
    if not _IMAGE.fullmatch(value):
        raise ValueError(f"{value!r} is not the name of an image; an example is lab.org:5000/team/train:7")
    return value


def _interpreter(value: str) -> str:
    if not value or value.startswith("-") or ("/" in value and not value.startswith("/")):
        raise ValueError(f"{value!r} must be the name or the full path of a Python in the image")
    return value


def _plain_text(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _label_keys(found: dict[str, str]) -> dict[str, str]:
    for key in found:
        syntax.check_label_key(key)
        if key.startswith(OWN_LABELS):
            raise ValueError(f"{key!r} is set by nnimgr; remove it")
    return found


def _labels(found: dict[str, str]) -> dict[str, str]:
    for value in _label_keys(found).values():
        syntax.check_label(value)
    return found


def _node_labels(found: dict[str, str]) -> dict[str, str]:
    for key, value in found.items():
        syntax.check_label_key(key)
        syntax.check_label(value)
    return found


_Duration = Annotated[str | int, PlainValidator(_duration)]  # the value stays in the user's notation
Name = Annotated[str, AfterValidator(syntax.check_name)]
Namespace = Annotated[str, AfterValidator(syntax.check_namespace)]
_Key = Annotated[str, AfterValidator(syntax.check_secret_key)]
MountPath = Annotated[str, AfterValidator(syntax.check_mount_path)]
_Cpu = Annotated[str, PlainValidator(syntax.cpu_quantity)]
_Memory = Annotated[str, PlainValidator(syntax.memory_quantity)]
Image = Annotated[str, AfterValidator(check_image)]
Text = Annotated[str, AfterValidator(_plain_text)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )


def _only_one(model: BaseModel, fields: tuple[str, ...]) -> None:
    given = [name for name in fields if getattr(model, name) is not None]
    if len(given) != 1:
        names = ", ".join(map(to_camel, fields))
        raise ValueError(f"give exactly one of {names}, not {' and '.join(map(to_camel, given)) or 'none'}")


class Requests(_Model):
    """Resources that the scheduler reserves for a trial (Kubernetes: requests), if less than the trial's
    limits.
    """

    cpu: _Cpu | None = None
    memory: _Memory | None = None


class Resources(_Model):
    """Resources that a trial may use. Missing values are taken from trialCpuNumber, trialMemorySize and
    trialGpuNumber.
    """

    cpu: _Cpu | None = None
    memory: _Memory | None = None
    gpu: Annotated[int | None, Field(ge=0)] = None
    gpu_resource: Annotated[str, AfterValidator(syntax.check_resource_name)] = "nvidia.com/gpu"
    requests: Requests = Field(default_factory=Requests)


class Toleration(_Model):
    key: Annotated[str, AfterValidator(syntax.check_label_key)] | None = None
    operator: Annotated[TolerationOperator, Field(strict=False)] | None = None
    value: Annotated[str, AfterValidator(syntax.check_label)] | None = None
    effect: Annotated[TaintEffect, Field(strict=False)] | None = None
    toleration_seconds: int | None = None

    @model_validator(mode="after")
    def _sound(self) -> Toleration:
        if self.key is None and self.operator is not TolerationOperator.EXISTS:
            raise ValueError("without 'key' the operator must be Exists")
        if self.operator is TolerationOperator.EXISTS and self.value:
            raise ValueError("'value' is not allowed with the operator Exists")
        if self.toleration_seconds is not None and self.effect is not TaintEffect.NO_EXECUTE:
            raise ValueError("'tolerationSeconds' is only allowed with the effect NoExecute")
        return self


class EnvironmentSource(_Model):
    """Key of a Secret or ConfigMap. Its value becomes an environment variable of the trials."""

    secret: Name | None = None
    config_map: Name | None = None
    key: _Key
    optional: bool = False

    @model_validator(mode="after")
    def _one(self) -> EnvironmentSource:
        _only_one(self, ("secret", "config_map"))
        return self


class EnvironmentValues(_Model):
    """Secret or ConfigMap, of which each key becomes an environment variable of the trials."""

    secret: Name | None = None
    config_map: Name | None = None
    prefix: Annotated[str, AfterValidator(syntax.check_environment_name)] | None = None
    optional: bool = False

    @model_validator(mode="after")
    def _one(self) -> EnvironmentValues:
        _only_one(self, ("secret", "config_map"))
        return self


def _environment_value(value: Any) -> SecretStr | EnvironmentSource:
    """Parse a variable's value in ``env``: a text, or a reference to a key of a Secret or ConfigMap.

    A text may be a password or the like, so it is wrapped as a secret.
    """
    if isinstance(value, SecretStr | EnvironmentSource):
        return value
    if isinstance(value, str):
        return SecretStr(value)
    try:
        return EnvironmentSource.model_validate(value)
    except ValidationError:
        raise ValueError("must be a text, {secret: NAME, key: KEY} or {configMap: NAME, key: KEY}") from None


def _environment(found: dict[str, EnvironmentValue]) -> dict[str, EnvironmentValue]:
    for name in found:
        syntax.check_environment_name(name)
        if name.startswith(OWN_VARIABLES):
            raise ValueError(f"{name} is set by nnimgr; remove it")
    return found


EnvironmentValue = Annotated[SecretStr | EnvironmentSource, PlainValidator(_environment_value)]


class EmptyDirectory(_Model):
    medium: Literal["Memory"] | None = None
    size_limit: _Memory | None = None


class NfsExport(_Model):
    server: Text
    path: MountPath


_VOLUME_SOURCES = ("pvc", "config_map", "secret", "empty_dir", "host_path", "nfs")


class PodVolume(_Model):
    """Volume of a trial's pod, and the path where it is mounted in the trial's container."""

    name: Annotated[str, AfterValidator(syntax.check_namespace)]
    mount_path: MountPath
    sub_path: Text | None = None
    read_only: bool = False
    pvc: Name | None = None
    config_map: Name | None = None
    secret: Name | None = None
    empty_dir: EmptyDirectory | None = None
    host_path: MountPath | None = None
    nfs: NfsExport | None = None

    @model_validator(mode="after")
    def _sound(self) -> PodVolume:
        _only_one(self, _VOLUME_SOURCES)
        if self.name.startswith(OWN_VOLUMES):
            raise ValueError(f"names that begin with {OWN_VOLUMES} are reserved for nnimgr")
        if f"{self.mount_path}/".startswith(f"{OWN_FOLDER}/"):
            raise ValueError(f"{OWN_FOLDER} in the container is used by nnimgr; choose another mount path")
        return self


class CodeSource(_Model):
    """Place of the trial code if the server does not send the code: a volume of the cluster, or the image."""

    pvc: Name | None = None
    config_map: Name | None = None
    image: MountPath | None = None  # a directory in the image
    path: Text | None = None  # a directory in the volume
    read_only: bool = False

    @model_validator(mode="after")
    def _sound(self) -> CodeSource:
        _only_one(self, ("pvc", "config_map", "image"))
        if self.path is not None and (self.path.startswith("/") or ".." in self.path.split("/")):
            raise ValueError(f"path {self.path!r} must be relative to the volume, without '..'")
        if self.pvc is None and (self.path is not None or self.read_only):
            raise ValueError("'path' and 'readOnly' are only allowed with 'pvc'")
        return self


def _code(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value != "archive":
        raise ValueError(f"unknown value {value!r}; write archive, or a mapping with pvc, configMap or image")
    return None


class KubernetesConfig(_Model, PlatformConfig):
    """Description of the pods in which an experiment's trials run.

    ``namespace``, ``context`` and ``kubeconfig`` None: the values that kubectl would use; a server in a pod
    uses the values of its pod. ``trialCode`` None: the server sends ``trialCodeDirectory``. ``keepJobs``: how
    long a Job is kept after its end. ``reuseMode``: each pod runs many trials in turn, and ends after
    ``reuseIdle`` without a trial. ``orphanedAfter``: time without contact to the server after which trials
    are stopped; None: never.
    """

    makes_allocations: ClassVar[bool] = True

    platform: Literal["kubernetes"] = "kubernetes"
    image: Image
    docker_image: str | None = None  # NNI's name for ``image``; None after the configuration was checked
    image_pull_policy: Annotated[PullPolicy, Field(strict=False)] | None = None
    image_pull_secrets: list[Name] = Field(default_factory=list)
    keeper_image: Image | None = None
    python: Annotated[str, AfterValidator(_interpreter)] = "python3"
    namespace: Namespace | None = None
    context: Text | None = None
    kubeconfig: Path | None = None
    resources: Resources = Field(default_factory=Resources)
    node_selector: Annotated[dict[str, str], AfterValidator(_node_labels)] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)
    affinity: Annotated[dict[str, Any], AfterValidator(check_affinity)] | None = None
    service_account: Name | None = None
    labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], AfterValidator(_label_keys)] = Field(default_factory=dict)
    env: Annotated[dict[str, EnvironmentValue], AfterValidator(_environment)] = Field(default_factory=dict)
    env_from: list[EnvironmentValues] = Field(default_factory=list)
    volumes: list[PodVolume] = Field(default_factory=list)
    priority_class: Name | None = None
    active_deadline: _Duration | None = None
    keep_jobs: _Duration = "10m"
    pod_template: Annotated[dict[str, Any], AfterValidator(check_template)] = Field(default_factory=dict)
    trial_code: Annotated[CodeSource | None, BeforeValidator(_code)] = None
    reuse_mode: bool = False
    reuse_idle: _Duration = "60s"
    orphaned_after: _Duration | None = None

    @model_validator(mode="before")
    @classmethod
    def _names_of_nni(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or values.get("dockerImage") is None:
            return values
        if values.get("image") is not None:
            raise ValueError("'image' and 'dockerImage' mean the same: give one of them")
        taken = dict(values)
        taken["image"] = taken.pop("dockerImage")
        return taken

    @model_validator(mode="after")
    def _sound(self) -> KubernetesConfig:
        if self.reuse_mode and self.active_deadline is not None:
            raise ValueError(
                "'activeDeadline' ends a pod, which with 'reuseMode' runs many trials; limit each of them "
                "with maxTrialDuration"
            )
        for what, names in (
            ("name", [volume.name for volume in self.volumes]),
            ("mountPath", [volume.mount_path for volume in self.volumes]),
        ):
            if repeated := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"two volumes have the same {what} {repeated[0]!r}")
        return self

    @property
    def code_directory(self) -> str | None:
        """Directory of the trial code in a pod; None if the server sends the code."""
        if self.trial_code is None:
            return None
        return self.trial_code.image or f"{OWN_FOLDER}/code"

    def sizes_each_trial(self) -> bool:
        return not self.reuse_mode

    def sends_code(self) -> bool:
        return self.trial_code is None

    def places(self) -> tuple[str, ...]:
        return (f"pods of {self.image}",)

    def key_files(self) -> Iterator[tuple[KeyPath, Path]]:
        if self.kubeconfig is not None:
            yield ("kubeconfig",), self.kubeconfig

    @property
    def deadline(self) -> timedelta | None:
        return None if self.active_deadline is None else parse_duration(self.active_deadline)

    @property
    def kept(self) -> timedelta:
        """Time for which a Job is kept in the cluster after its end (``keepJobs``)."""
        return parse_duration(self.keep_jobs)

    @property
    def idle(self) -> timedelta:
        """Time without a trial after which a reused pod is removed (``reuseIdle``)."""
        return parse_duration(self.reuse_idle)

    @property
    def orphaned(self) -> timedelta | None:
        return None if self.orphaned_after is None else parse_duration(self.orphaned_after)
