"""Configuration of the platform: ``trainingService`` with ``platform: remote``.

It has NNI's fields and more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    model_validator,
)
from pydantic.alias_generators import to_camel

from training_services.keepers.names import keeper_name
from training_services.placement.needs import Wants
from training_services.platform import ConfigFault, KeyPath, PlatformConfig, gpu_faults
from training_services.units import parse_duration, parse_gpu_indices

__all__ = ["DEFAULT_PORT", "HostKeyPolicy", "MachineConfig", "RemoteConfig", "faults"]

DEFAULT_PORT = 22
# Characters that ``pythonPath`` may not contain: it becomes part of a command, and shells differ in them.
_READ_BY_SHELLS = re.compile(r"""['"`\\$!\x00-\x1f\x7f]""")


class HostKeyPolicy(StrEnum):
    """Policy for host keys that known_hosts does not contain. A changed key is always refused."""

    STRICT = "strict"
    ACCEPT_NEW = "accept-new"


def _duration(value: Any) -> str | int:
    parse_duration(value)
    return value  # type: ignore[no-any-return]


def _host(value: str) -> str:
    host = value.strip()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or host.startswith("-") or any(character in host for character in " /@,"):
        raise ValueError(f"{value!r} is not the name or the address of a machine")
    return host


def _directory(value: str) -> str:
    if _READ_BY_SHELLS.search(value) or not value.startswith(("/", "~/")):
        raise ValueError(
            f"{value!r} must be an absolute path on the machine, or begin with ~/, without quotes, "
            "backslashes, '$' or '!'"
        )
    return value.rstrip("/") or "/"


def _user(value: str) -> str:
    if not value or any(character.isspace() for character in value):
        raise ValueError(f"{value!r} is not the name of a user")
    return value


_OptionalHost = Annotated[str | None, AfterValidator(lambda value: None if value is None else _host(value))]
_Duration = Annotated[str | int, PlainValidator(_duration)]  # stays as the user wrote it
_Indices = Annotated[list[int], PlainValidator(parse_gpu_indices)]
_Policy = Annotated[HostKeyPolicy, Field(strict=False)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )


class MachineConfig(_Model):
    """Machine of ``machineList``.

    ``host`` may be a name from ~/.ssh/config, which then provides values that are not given in this section.
    ``sshKeyFile`` None: the agent's keys and the keys in ~/.ssh are used, as the ssh command does.
    """

    host: Annotated[str, AfterValidator(_host)]
    port: Annotated[int | None, Field(gt=0, lt=65536)] = None
    user: Annotated[str | None, AfterValidator(lambda value: None if value is None else _user(value))] = None
    password: SecretStr | None = None
    ssh_key_file: Path | None = None
    ssh_passphrase: SecretStr | None = None
    use_active_gpu: bool = False
    max_trial_number_per_gpu: Annotated[int, Field(gt=0)] = 1
    gpu_indices: _Indices | None = None
    python_path: Annotated[
        str | None, AfterValidator(lambda value: None if value is None else _directory(value))
    ] = None
    proxy_jump: str | None = None  # "user@host:port", several with commas between them
    host_key_policy: _Policy | None = None  # None: the policy for all machines
    gang_address: _OptionalHost = None  # where members of gangs reach this machine; None: ``host``

    @property
    def keeper_id(self) -> str:
        """Name of the keeper on this machine, made from user, host and port."""
        return keeper_name(self.user, self.host, self.port or DEFAULT_PORT)

    @property
    def address(self) -> str:
        """Name of the machine in the ledger of resources that all experiments share, as "host:port"."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port or DEFAULT_PORT}"

    @property
    def title(self) -> str:
        """Name of the machine in sentences: "user@host", with the port if it is not 22."""
        name = self.host if self.port in (None, DEFAULT_PORT) else self.address
        return name if self.user is None else f"{self.user}@{name}"


class RemoteConfig(_Model, PlatformConfig):
    """Configuration of the machines on which an experiment's trials run.

    ``keepAliveInterval``: time between two checks of a connection; it is closed after three missing answers.
    ``cleanUp``: remove the experiment's directory from each machine when the experiment has stopped.
    ``orphanedAfter``: time without contact to the server after which trials are stopped; None: never.
    ``reuseMode`` is accepted and has no effect.
    """

    shares_storage: ClassVar[bool] = True
    platform: Literal["remote"] = "remote"
    machine_list: Annotated[list[MachineConfig], Field(min_length=1)]
    reuse_mode: bool = False
    host_key_policy: _Policy = HostKeyPolicy.STRICT
    keep_alive_interval: _Duration = 5
    clean_up: bool = False
    orphaned_after: _Duration | None = None

    @model_validator(mode="after")
    def _different(self) -> RemoteConfig:
        seen: dict[str, int] = {}
        for number, machine in enumerate(self.machine_list):
            first = seen.setdefault(machine.keeper_id, number)
            if first != number:
                raise ValueError(
                    f"machineList[{number}] and machineList[{first}] are the same machine, {machine.title}"
                )
        return self

    def sizes_each_trial(self) -> bool:
        return True

    def sends_code(self) -> bool:
        return True

    def places(self) -> tuple[str, ...]:
        return tuple(machine.title for machine in self.machine_list)

    def key_files(self) -> Iterator[tuple[KeyPath, Path]]:
        for number, machine in enumerate(self.machine_list):
            if machine.ssh_key_file is not None:
                yield ("machineList", number, "sshKeyFile"), machine.ssh_key_file

    @property
    def keep_alive(self) -> timedelta:
        return parse_duration(self.keep_alive_interval)

    @property
    def orphaned(self) -> timedelta | None:
        return None if self.orphaned_after is None else parse_duration(self.orphaned_after)

    def policy(self, machine: MachineConfig) -> HostKeyPolicy:
        """Return the host key policy for this machine: its own, or else the policy for all machines."""
        return machine.host_key_policy or self.host_key_policy


def faults(config: RemoteConfig, wants: Wants) -> Iterator[ConfigFault]:
    """Yield the errors in a configuration with machines over SSH. ``wants``: resources that each job
    needs.
    """
    for number, machine in enumerate(config.machine_list):
        yield from gpu_faults(machine, ("machineList", number), wants.gpus)
