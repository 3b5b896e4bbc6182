"""The field ``gang``: trials that consist of several worker processes."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainValidator
from pydantic.alias_generators import to_camel

from nnimgr.config.parsing import Reading

__all__ = ["GangConfig", "check_gang"]

_MOST_PROCESSES = 1024
_BY_HARDWARE = ("auto", "cpu", "gpu")
_LAUNCHERS = ("torchrun", "mpirun", "mpiexec", "deepspeed", "accelerate")


def _processes(value: Any) -> int | str:
    """Return a value of ``processes``, if it is valid."""
    if value in _BY_HARDWARE or (type(value) is int and 1 <= value <= _MOST_PROCESSES):
        return value  # type: ignore[no-any-return]
    raise ValueError(
        f'must be a whole number from 1 to {_MOST_PROCESSES}, or "auto", "cpu" or "gpu", not {value!r}'
    )


class GangConfig(BaseModel):
    """Worker processes of each trial, all of them on one machine or in one pod."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )

    # "cpu" and "gpu": one process for each CPU or GPU; "auto": for each GPU if the trial has any, else CPU
    processes: Annotated[int | str, PlainValidator(_processes)]


def check_gang(reading: Reading, gang: GangConfig | None, command: str, *, preloads: bool) -> None:
    """Report a gang that cannot be used. Warn of a command that starts processes of its own.

    ``preloads``: the configuration has ``preload``, too.
    """
    if gang is None:
        return
    if preloads:
        reading.fault(("gang",), "cannot be used together with preload")
    try:
        words = shlex.split(command)
    except ValueError:
        return
    if launcher := next((word for word in words if word in _LAUNCHERS), None):
        reading.warn(
            ("gang",),
            f"each of the processes runs trialCommand, and {launcher} starts further processes: leave "
            f"{launcher} out of trialCommand, or leave gang out",
        )
