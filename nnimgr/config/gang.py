"""Model of the field ``gang``: trials that consist of several worker processes, perhaps on several hosts."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field, PlainValidator, model_validator

from nnimgr.config.base import ConfigModel
from nnimgr.config.values import Command, Duration
from nnimgr.rules.terms import MemberRange
from training_services.base import Gang, GangRole
from training_services.units import parse_cpu_number, parse_duration, parse_gpu_number, parse_size

__all__ = ["GangConfig", "GangRoleConfig"]

_GROWTH_SLACK = timedelta(minutes=1)  # for the steps of a growth that have no limit of their own
_MOST_PROCESSES = 1024
_MOST_NODES = 256
_RANGE = re.compile(r"([0-9]{1,3}):([0-9]{1,3})")
_BY_HARDWARE = ("auto", "cpu", "gpu")
_ROLE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")


def _size(value: Any) -> str | int:
    """Return a value of ``memorySize``, if it is valid."""
    parse_size(value)
    return value  # type: ignore[no-any-return]


def _processes(value: Any) -> int | str:
    """Return a value of ``processes``, if it is valid."""
    if value in _BY_HARDWARE or (type(value) is int and 1 <= value <= _MOST_PROCESSES):
        return value  # type: ignore[no-any-return]
    raise ValueError(
        f'must be a whole number from 1 to {_MOST_PROCESSES}, or "auto", "cpu" or "gpu", not {value!r}'
    )


def _nodes(value: Any) -> int | str:
    """Return a value of ``nodes``, if it is valid. A range of one number becomes this number."""
    if type(value) is int and 2 <= value <= _MOST_NODES:
        return value
    if isinstance(value, str) and (found := _RANGE.fullmatch(value)) is not None:
        least, most = int(found[1]), int(found[2])
        if 1 <= least <= most and 2 <= most <= _MOST_NODES:
            return most if least == most else f"{least}:{most}"
        raise ValueError(f"must have 1 <= MIN <= MAX and 2 <= MAX <= {_MOST_NODES}, not {value!r}")
    raise ValueError(
        f'must be a whole number from 2 to {_MOST_NODES}, or a range MIN:MAX such as "2:4", not {value!r}; '
        "leave it out for one host"
    )


class GangRoleConfig(ConfigModel):
    """Members of a trial that are alike. What is not given is that of the trial. ``image``: of their pods."""

    replicas: Annotated[int, Field(ge=1, le=_MOST_NODES)] = 1
    command: Command | None = None
    gpu_number: Annotated[int | float, PlainValidator(parse_gpu_number)] | None = None
    cpu_number: Annotated[int | float, PlainValidator(parse_cpu_number)] | None = None
    memory_size: Annotated[str | int, PlainValidator(_size)] | None = None
    image: Annotated[str, Field(min_length=1)] | None = None

    def role(self, name: str) -> GangRole:
        """Return the role in the form that training services use."""
        return GangRole(
            name=name,
            replicas=self.replicas,
            command=self.command,
            gpus=self.gpu_number,
            cpus=self.cpu_number,
            memory=None if self.memory_size is None else parse_size(self.memory_size),
            image=self.image,
        )


class GangConfig(ConfigModel):
    """Worker processes of each trial, on one host or on ``nodes`` hosts.

    ``processes``: their number on each host; None: the command runs once on each host. ``nodes``: a number,
    or a range "MIN:MAX" in the notation of torchrun. ``same_host``: the members of a trial may run beside
    each other on one host. ``exit_barrier``: time for the other members to end after the leader has ended
    with exit code 0. ``grow_after``: a trial with fewer members than it may have continues with more when
    there has been room for them for this time.
    """

    # "cpu" and "gpu": one process for each CPU or GPU; "auto": for each GPU if the trial has any, else CPU
    processes: Annotated[int | str, PlainValidator(_processes)] | None = None
    nodes: Annotated[int | str, PlainValidator(_nodes)] | None = None
    same_host: bool = False
    exit_barrier: Duration | None = None
    grow_after: Duration | None = None  # None: 60 s, with a range of ``nodes``
    # in place of ``nodes``: kinds of members, which are numbered one kind after the other
    roles: Annotated[dict[str, GangRoleConfig], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> GangConfig:
        if self.processes is None and self.nodes is None and self.roles is None:
            raise ValueError("needs processes, nodes or roles")
        if self.roles is not None:
            self._check_roles(self.roles)
        if self.grow_after is not None and self.least == self.most:
            raise ValueError("'growAfter' needs a range of 'nodes', such as \"2:4\"")
        return self

    def _check_roles(self, roles: dict[str, GangRoleConfig]) -> None:
        if self.nodes is not None:
            raise ValueError(
                "'nodes' and 'roles' exclude each other: the number of members is that of all roles"
            )
        for name in roles:
            if not _ROLE_NAME.fullmatch(name):
                raise ValueError(
                    f"'roles': the name {name!r} must be a letter, and then letters, digits, '-' or '_'"
                )
        if not 2 <= self.most <= _MOST_NODES:
            raise ValueError(f"'roles' must have 2 to {_MOST_NODES} members together, not {self.most}")

    @property
    def least(self) -> int:
        """Smallest number of members of a trial."""
        return self.most if self.roles is not None else _bounds(self.nodes)[0]

    @property
    def most(self) -> int:
        """Largest number of members of a trial."""
        if self.roles is not None:
            return sum(role.replicas for role in self.roles.values())
        return _bounds(self.nodes)[1]

    def roles_of_trials(self) -> tuple[GangRole, ...]:
        """Return the roles in the form that training services use; none if all members are alike."""
        return tuple(role.role(name) for name, role in (self.roles or {}).items())

    def gang(self, *, max_restarts: int, save_within: timedelta) -> Gang:
        """Return the gang in the form that training services use."""
        members = self.members()
        return Gang(
            processes=None if self.processes is None else str(self.processes),
            max_restarts=max_restarts,
            nodes=self.most,
            least_nodes=None if members is None else members.least,
            hold_more=None if members is None else members.grow_after + save_within + _GROWTH_SLACK,
            same_host=self.same_host,
            roles=self.roles_of_trials(),
        )

    def members(self) -> MemberRange | None:
        """Return the range of the number of members in the form that the core uses; None: it is fixed."""
        if self.least == self.most:
            return None
        found = MemberRange(least=self.least, most=self.most)
        if self.grow_after is None:
            return found
        return replace(found, grow_after=parse_duration(self.grow_after))


def _bounds(nodes: int | str | None) -> tuple[int, int]:
    """Return both ends of a valid value of ``nodes``."""
    if isinstance(nodes, str):
        least, _, most = nodes.partition(":")
        return int(least), int(most)
    return nodes or 1, nodes or 1
