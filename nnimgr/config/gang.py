"""Model of the field ``gang``: trials that consist of several worker processes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainValidator

from nnimgr.config.base import ConfigModel

__all__ = ["GangConfig"]

_MOST_PROCESSES = 1024
_BY_HARDWARE = ("auto", "cpu", "gpu")


def _processes(value: Any) -> int | str:
    """Return a value of ``processes``, if it is valid."""
    if value in _BY_HARDWARE or (type(value) is int and 1 <= value <= _MOST_PROCESSES):
        return value  # type: ignore[no-any-return]
    raise ValueError(
        f'must be a whole number from 1 to {_MOST_PROCESSES}, or "auto", "cpu" or "gpu", not {value!r}'
    )


class GangConfig(ConfigModel):
    """Worker processes of each trial, all of them on one machine or in one pod."""

    # "cpu" and "gpu": one process for each CPU or GPU; "auto": for each GPU if the trial has any, else CPU
    processes: Annotated[int | str, PlainValidator(_processes)]
