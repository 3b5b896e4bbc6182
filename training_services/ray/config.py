"""Configuration of the platform: ``trainingService`` with ``platform: ray``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, SecretStr, model_validator
from pydantic.alias_generators import to_camel

from training_services.platform import KeyPath, PlatformConfig
from training_services.units import parse_duration, parse_size

__all__ = ["RayConfig"]

# fields of Ray's runtime environment that would replace what nnimgr does itself
_OWN_FIELDS = {
    "working_dir": "nnimgr copies trialCodeDirectory to the nodes",
    "excludes": "it belongs to working_dir, which nnimgr does not use",
}
# resources that have fields of their own
_OWN_RESOURCES = {"CPU": "cpus", "GPU": "gpus", "memory": "memory"}


def _address(value: str) -> str:
    try:
        url = urlsplit(value)
        sound = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        sound = False
    if not sound or url.query or url.fragment or url.username is not None:
        raise ValueError(f"{value!r} must be the address of Ray's dashboard, as in http://head:8265")
    return value.rstrip("/")


def _duration(value: Any) -> str | int:
    parse_duration(value)
    return value  # type: ignore[no-any-return]


def _memory(value: Any) -> int | None:
    return None if value is None else parse_size(value)


def _interpreter(value: str) -> str:
    if not re.fullmatch(r"[\w./~+-]+", value) or value.startswith("-"):
        raise ValueError(f"{value!r} must be the name or the full path of a Python on the nodes")
    return value


def _folder(value: str | None) -> str | None:
    if value is not None and not value.startswith("/"):
        raise ValueError(f"{value!r} must be an absolute path")
    return value


def _resources(found: dict[str, float]) -> dict[str, float]:
    for name, number in found.items():
        if name in _OWN_RESOURCES:
            raise ValueError(f"{name} cannot be given here: give {_OWN_RESOURCES[name]} instead")
        if not name.strip() or not 0 < number < math.inf:
            raise ValueError(f"{name!r} needs a number above 0, not {number:g}")
    return found


def _runtime_env(found: dict[str, Any]) -> dict[str, Any]:
    for name in found:
        if name in _OWN_FIELDS:
            raise ValueError(f"{name} cannot be given: {_OWN_FIELDS[name]}")
    variables = found.get("env_vars")
    if variables is not None and not (
        isinstance(variables, dict) and all(isinstance(value, str) for value in variables.values())
    ):
        raise ValueError("env_vars must be a mapping of names to texts (put numbers in quotes)")
    return found


_Duration = Annotated[str | int, PlainValidator(_duration)]  # the value stays in the user's notation


class RayConfig(PlatformConfig):
    """Description of the jobs of Ray in which an experiment's trials run. Such a job is an allocation.

    ``address``: that of the dashboard. ``token``, ``tokenFile``: the cluster's token. ``insecure``: also use
    a cluster that needs no token. ``cpus``, ``memory`` and ``gpus`` are those of one allocation; None: what
    one trial needs. ``resources``: further ones that it needs; ``labels``: those that its node must have.
    ``runtimeEnv``: Ray's runtime environment for it. ``perTrial``: each trial has an allocation of its own.
    ``maxAllocations``: number of allocations at the same time; None: as many as trials need. ``idle``: time
    without a trial after which an allocation is given back. ``setup``: lines of shell before the keeper.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )

    makes_allocations: ClassVar[bool] = True

    platform: Literal["ray"] = "ray"
    address: Annotated[str, AfterValidator(_address)]
    token: SecretStr | None = None
    token_file: Path | None = None
    insecure: bool = False
    cpus: Annotated[int | None, Field(gt=0)] = None
    memory: Annotated[int | None, PlainValidator(_memory)] = None
    gpus: Annotated[int | None, Field(gt=0)] = None
    resources: Annotated[dict[str, float], AfterValidator(_resources)] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    runtime_env: Annotated[dict[str, Any], AfterValidator(_runtime_env)] = Field(default_factory=dict)
    per_trial: bool = False
    max_allocations: Annotated[int | None, Field(gt=0)] = None
    idle: _Duration = "60s"
    setup: str = ""
    python: Annotated[str, AfterValidator(_interpreter)] = "python3"
    work_directory: Annotated[str | None, AfterValidator(_folder)] = None
    orphaned_after: _Duration | None = None

    @model_validator(mode="after")
    def _sound(self) -> RayConfig:
        if self.token is not None and self.token_file is not None:
            raise ValueError("give either 'token' or 'tokenFile', not both")
        if self.token is None and self.token_file is None and not self.insecure:
            raise ValueError(
                "give the cluster's token as 'token' or 'tokenFile'. If the cluster needs none, everybody "
                "who reaches its port can run programs there (CVE-2023-48022): 'insecure: true' accepts that"
            )
        if self.per_trial and self.max_allocations is not None:
            raise ValueError("'maxAllocations' has no effect with 'perTrial': give trialConcurrency instead")
        return self

    @property
    def idle_time(self) -> timedelta:
        return parse_duration(self.idle)

    @property
    def orphaned(self) -> timedelta | None:
        return None if self.orphaned_after is None else parse_duration(self.orphaned_after)

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that the user gives to the allocations."""
        return dict(self.runtime_env.get("env_vars") or {})

    def sizes_each_trial(self) -> bool:
        return True

    def sends_code(self) -> bool:
        return True

    @property
    def gpu_number(self) -> int | None:
        """Number of GPUs in an allocation."""
        return self.gpus

    def places(self) -> tuple[str, ...]:
        return (f"the Ray cluster at {self.address}",)

    def key_files(self) -> Iterator[tuple[KeyPath, Path]]:
        if self.token_file is not None:
            yield ("tokenFile",), self.token_file
