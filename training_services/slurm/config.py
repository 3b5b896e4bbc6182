"""Configuration of the platform: ``trainingService`` with ``platform: slurm``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, SecretStr, model_validator
from pydantic.alias_generators import to_camel

from training_services.platform import KeyPath, PlatformConfig
from training_services.ssh.config import HostKeyPolicy, MachineConfig
from training_services.units import parse_duration, parse_size

__all__ = ["LoginConfig", "SlurmConfig"]

_GPUS = re.compile(r"(?:(?P<kind>[A-Za-z0-9_.-]+):)?(?P<number>[1-9]\d*)")
# options of sbatch that the script sets, by which nnimgr finds and ends its allocations
_OWN_OPTIONS = {
    "--job-name": "nnimgr names its allocations",
    "--comment": "nnimgr knows its allocations by it",
    "--requeue": "a script that begins again would find another keeper's place",
    "--signal": "give signalBefore instead",
    "--time": "give timeLimit instead",
    "--array": "each allocation has a script of its own",
    "--export": "trials get the environment of the node",
    "--wrap": "nnimgr writes the script",
    "--nodes": "an allocation is one node",
    "--ntasks": "an allocation is one task",
    "--output": "give the folder as logs instead",
    "--parsable": "nnimgr gives it already",
}
_LEAST_SIGNAL = timedelta(seconds=90)  # Slurm sends the signal up to 60 s before its time


def _duration(value: Any) -> str | int:
    parse_duration(value)
    return value  # type: ignore[no-any-return]


def _word(value: str | None) -> str | None:
    if value is None:
        return None
    if not value or value.startswith("-") or any(character.isspace() for character in value):
        raise ValueError(f"{value!r} must be a name without spaces")
    return value


def _gpus(value: Any) -> str | None:
    if value is None:
        return None
    text = str(value) if type(value) in (int, str) else ""
    if not _GPUS.fullmatch(text):
        raise ValueError(f"{value!r} must be a number of GPUs, or a kind and a number, as in a100:4")
    return text


def _memory(value: Any) -> int | None:
    return None if value is None else parse_size(value)


def _interpreter(value: str) -> str:
    if not re.fullmatch(r"[\w./~+-]+", value) or value.startswith("-"):
        raise ValueError(f"{value!r} must be the name or the full path of a Python on the nodes")
    return value


def _folder(value: str | None) -> str | None:
    if value is None:
        return None
    if not value.startswith("/") or re.search(r"[\s'\"\\$`]", value):
        raise ValueError(f"{value!r} must be an absolute path without spaces and quotes")
    return value.rstrip("/") or "/"


def _options(found: list[str]) -> list[str]:
    for option in found:
        name = option.partition("=")[0]
        if not option.startswith("--") or "\n" in option:
            raise ValueError(
                f"{option!r} must be a long option of sbatch, such as --exclusive or --mem-bind=local"
            )
        if name in _OWN_OPTIONS:
            raise ValueError(f"{name} cannot be given: {_OWN_OPTIONS[name]}")
    return found


_Duration = Annotated[str | int, PlainValidator(_duration)]  # the value stays in the user's notation
_Word = Annotated[str | None, AfterValidator(_word)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )


class LoginConfig(_Model):
    """Login node on which sbatch, squeue and scancel run, over SSH. See ``MachineConfig``."""

    host: str
    port: Annotated[int | None, Field(gt=0, lt=65536)] = None
    user: str | None = None
    password: SecretStr | None = None
    ssh_key_file: Path | None = None
    ssh_passphrase: SecretStr | None = None
    python_path: str | None = None
    proxy_jump: str | None = None
    host_key_policy: Annotated[HostKeyPolicy, Field(strict=False)] = HostKeyPolicy.STRICT

    @model_validator(mode="after")
    def _sound(self) -> LoginConfig:
        self.machine()
        return self

    def machine(self) -> MachineConfig:
        """Return the login node as a machine over SSH."""
        return MachineConfig(**{name: getattr(self, name) for name in type(self).model_fields})


class SlurmConfig(_Model, PlatformConfig):
    """Description of the allocations in which an experiment's trials run.

    ``login`` None: sbatch runs on the server's machine. ``cpus``, ``memory`` and ``gpus`` are those of one
    allocation; None: what one trial needs. ``perTrial``: each trial has an allocation of its own.
    ``maxAllocations``: number of allocations at the same time; None: as many as trials need. ``idle``: time
    without a trial after which an allocation is given back. ``signalBefore``: time before the time limit at
    which trials are asked to save their state, and are stopped. ``setup``: lines of shell before the keeper.
    ``logs``: folder on the nodes for the output of the allocations; None: it is dropped.
    """

    makes_allocations: ClassVar[bool] = True

    platform: Literal["slurm"] = "slurm"
    login: LoginConfig | None = None
    partition: _Word = None
    account: _Word = None
    qos: _Word = None
    constraint: str | None = None
    gpus: Annotated[str | None, PlainValidator(_gpus)] = None
    cpus: Annotated[int | None, Field(gt=0)] = None
    memory: Annotated[int | None, PlainValidator(_memory)] = None
    time_limit: _Duration
    signal_before: _Duration = "2m"
    per_trial: bool = False
    max_allocations: Annotated[int | None, Field(gt=0)] = None
    idle: _Duration = "60s"
    extra: Annotated[list[str], AfterValidator(_options)] = Field(default_factory=list)
    setup: str = ""
    python: Annotated[str, AfterValidator(_interpreter)] = "python3"
    work_directory: Annotated[str | None, AfterValidator(_folder)] = None
    logs: Annotated[str | None, AfterValidator(_folder)] = None
    orphaned_after: _Duration | None = None

    @model_validator(mode="after")
    def _sound(self) -> SlurmConfig:
        if self.signal_lead < _LEAST_SIGNAL:
            raise ValueError(
                f"'signalBefore' must be at least {_LEAST_SIGNAL.total_seconds():g} s, because Slurm sends "
                "the signal up to 60 s early"
            )
        if self.limit < self.signal_lead + timedelta(minutes=1):
            raise ValueError("'timeLimit' must be at least one minute longer than 'signalBefore'")
        if self.per_trial and self.max_allocations is not None:
            raise ValueError("'maxAllocations' has no effect with 'perTrial': give trialConcurrency instead")
        if self.constraint is not None and (not self.constraint.strip() or "\n" in self.constraint):
            raise ValueError(f"constraint {self.constraint!r} must be one line, as in a100&nvme")
        return self

    def in_environment(self, environ: Mapping[str, str]) -> SlurmConfig:
        """Return the configuration with what sbatch's variables name where it names nothing itself: account,
        partition, QOS and constraint.
        """
        if self.login is not None:  # sbatch runs in another environment
            return self
        names = ("account", "partition", "qos", "constraint")
        given = {name: environ.get(f"SBATCH_{name.upper()}") for name in names if getattr(self, name) is None}
        return self.model_copy(update={name: value for name, value in given.items() if value})

    @property
    def limit(self) -> timedelta:
        """Time for which an allocation may last, in whole minutes (``timeLimit``)."""
        return timedelta(minutes=math.ceil(parse_duration(self.time_limit) / timedelta(minutes=1)))

    @property
    def signal_lead(self) -> timedelta:
        """Time between the signal and the time limit (``signalBefore``)."""
        return parse_duration(self.signal_before)

    @property
    def idle_time(self) -> timedelta:
        return parse_duration(self.idle)

    @property
    def orphaned(self) -> timedelta | None:
        return None if self.orphaned_after is None else parse_duration(self.orphaned_after)

    @property
    def gpu_number(self) -> int | None:
        """Number of GPUs in an allocation, whatever their kind."""
        return None if self.gpus is None else int(self.gpus.rpartition(":")[2])

    def sizes_each_trial(self) -> bool:
        return True

    def sends_code(self) -> bool:
        return True

    def places(self) -> tuple[str, ...]:
        where = "" if self.partition is None else f" in partition {self.partition}"
        return (f"Slurm allocations{where}",)

    def key_files(self) -> Iterator[tuple[KeyPath, Path]]:
        if self.login is not None and self.login.ssh_key_file is not None:
            yield ("login", "sshKeyFile"), self.login.ssh_key_file
