"""Model of the field ``gang``: trials that consist of several worker processes, perhaps on several hosts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainValidator, model_validator

from nnimgr.config.base import ConfigModel
from nnimgr.config.values import Duration

__all__ = ["GangConfig"]

_MOST_PROCESSES = 1024
_MOST_NODES = 256
_BY_HARDWARE = ("auto", "cpu", "gpu")


def _processes(value: Any) -> int | str:
    """Return a value of ``processes``, if it is valid."""
    if value in _BY_HARDWARE or (type(value) is int and 1 <= value <= _MOST_PROCESSES):
        return value  # type: ignore[no-any-return]
    raise ValueError(
        f'must be a whole number from 1 to {_MOST_PROCESSES}, or "auto", "cpu" or "gpu", not {value!r}'
    )


def _nodes(value: Any) -> int:
    """Return a value of ``nodes``, if it is valid."""
    if type(value) is int and 2 <= value <= _MOST_NODES:
        return value
    if isinstance(value, str) and ":" in value:
        raise ValueError(f"must be one number: a range of hosts, such as {value!r}, is not supported")
    raise ValueError(
        f"must be a whole number from 2 to {_MOST_NODES}, not {value!r}; leave it out for one host"
    )


class GangConfig(ConfigModel):
    """Worker processes of each trial, on one host or on ``nodes`` hosts.

    ``processes``: their number on each host; None: the command runs once on each host. ``same_host``: the
    members of a trial may run beside each other on one host. ``exit_barrier``: time for the other members to
    end after the leader has ended with exit code 0.
    """

    # "cpu" and "gpu": one process for each CPU or GPU; "auto": for each GPU if the trial has any, else CPU
    processes: Annotated[int | str, PlainValidator(_processes)] | None = None
    nodes: Annotated[int, PlainValidator(_nodes)] | None = None
    same_host: bool = False
    exit_barrier: Duration | None = None

    @model_validator(mode="after")
    def _says_something(self) -> GangConfig:
        if self.processes is None and self.nodes is None:
            raise ValueError("needs processes, nodes, or both")
        return self
