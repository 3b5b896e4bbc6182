"""``trainingService`` with ``platform: remote``: NNI's fields, and what SSH needs beside them."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import re
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

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

from training_services.units import parse_duration, parse_gpu_indices

__all__ = ["DEFAULT_PORT", "HostKeyPolicy", "MachineConfig", "RemoteConfig", "experiment_folder", "host_of"]

DEFAULT_PORT = 22
# What a shell would read, and every shell differently: the directory stands in the command that sshd runs.
_READ_BY_SHELLS = re.compile(r"""['"`\\$!\x00-\x1f\x7f]""")
_PLAIN_USER = re.compile(r"[A-Za-z0-9._-]+")
_PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+")
_DIGEST = re.compile(r"[0-9a-f]{8}")
_ODD = re.compile(r"[^A-Za-z0-9._-]")


class HostKeyPolicy(StrEnum):
    """What to do with a machine's key that known_hosts does not know. A changed one is always refused."""

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
            f"{value!r} must be a full path on the machine, or one that begins with ~/, without quotes, "
            "backslashes, '$' or '!'"
        )
    return value.rstrip("/") or "/"


def _user(value: str) -> str:
    if not value or any(character.isspace() for character in value):
        raise ValueError(f"{value!r} is not the name of a user")
    return value


_Duration = Annotated[str | int, PlainValidator(_duration)]  # kept as the user wrote it
_Indices = Annotated[list[int], PlainValidator(parse_gpu_indices)]
_Policy = Annotated[HostKeyPolicy, Field(strict=False)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )


class MachineConfig(_Model):
    """One machine of ``machineList``.

    ``host`` may be a name of ~/.ssh/config: what is not given here is taken from there. ``sshKeyFile`` None:
    the agent's keys and those of ~/.ssh, as for ssh itself.
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
    host_key_policy: _Policy | None = None  # None: the one of all machines

    @property
    def keeper_id(self) -> str:
        """The name of the machine's keeper: stable, of letters, digits, ``.``, ``_`` and ``-`` only.

        A host's name holds no ``_``, so what stands between the last two of them is the host.
        """
        port = self.port or DEFAULT_PORT
        name = "_".join(filter(None, (self.user, self.host, str(port))))
        if _PLAIN_HOST.fullmatch(self.host) and (self.user is None or _PLAIN_USER.fullmatch(self.user)):
            return name
        digest = hashlib.sha256(f"{self.user}@{self.host}:{port}".encode()).hexdigest()[:8]
        return f"{_ODD.sub('-', name)}_{digest}"

    @property
    def address(self) -> str:
        """Who it is to the ledger that all experiments share: "host:port"."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port or DEFAULT_PORT}"

    @property
    def title(self) -> str:
        """Who it is in sentences: "user@host", with the port if it is not the usual one."""
        name = self.host if self.port in (None, DEFAULT_PORT) else self.address
        return name if self.user is None else f"{self.user}@{name}"


def host_of(keeper_id: str) -> str | None:
    """The host in the name of a machine's keeper, as it stood in the configuration; None: it is no such name.

    Of a host whose characters a name cannot have, unless it is an IPv6 address: what stands in its place.
    """
    names = keeper_id.split("_")
    digested = len(names) > 2 and bool(_DIGEST.fullmatch(names[-1]))
    if digested:
        names.pop()
    if len(names) < 2 or not names[-1].isdecimal():
        return None
    host = names[-2]
    if digested:
        with contextlib.suppress(ValueError):
            return f"[{ipaddress.IPv6Address(host.replace('-', ':'))}]"
        return "_".join(names[:-1])
    return host


def experiment_folder(experiment_id: str, keeper_id: str) -> str:
    """Where everything of an experiment lies on the keeper's machine, relative to the home there."""
    return f"nni-experiments/{experiment_id}/environments/{keeper_id}"


class RemoteConfig(_Model):
    """The machines that an experiment's trials run on.

    ``keepAliveInterval``: how often a connection is tried; one that has not answered three times is dead.
    ``cleanUp``: remove the experiment's directory from each machine once it has stopped; it stays otherwise.
    ``orphanedAfter``: how long trials run on without a word from the server before they are stopped; None:
    for ever. ``reuseMode`` is accepted and changes nothing.
    """

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

    @property
    def keep_alive(self) -> timedelta:
        return parse_duration(self.keep_alive_interval)

    @property
    def orphaned(self) -> timedelta | None:
        return None if self.orphaned_after is None else parse_duration(self.orphaned_after)

    def policy(self, machine: MachineConfig) -> HostKeyPolicy:
        """Of this machine, or of all."""
        return machine.host_key_policy or self.host_key_policy
