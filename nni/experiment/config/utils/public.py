"""Helper functions for the configuration classes, also for users, named as in NNI."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = [
    "PathLike",
    "canonical_gpu_indices",
    "is_missing",
    "parse_memory_size",
    "parse_time",
    "validate_gpu_indices",
]

PathLike = Path | str

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_BYTES = {"tb": 1 << 40, "gb": 1 << 30, "mb": 1 << 20, "kb": 1 << 10, "b": 1}


def is_missing(value: Any) -> bool:
    """Return whether ``value`` is the marker ``dataclasses.MISSING`` of a field that was never set.

    The types are compared, because a copy of the marker is another object.
    """
    return isinstance(value, type(dataclasses.MISSING))


def canonical_gpu_indices(indices: Any) -> Any:
    """Return GPU indices such as "0,1" or 0 as a list of integers. Return None for None."""
    if isinstance(indices, str):
        return [int(index) for index in indices.split(",")]
    return [indices] if isinstance(indices, int) else indices


def validate_gpu_indices(indices: list[int] | None) -> None:
    """Raise ValueError if a GPU index is negative or is given twice."""
    if indices is None:
        return
    if len(set(indices)) != len(indices):
        raise ValueError(f"GPU indices {indices}: an index is given twice")
    if any(index < 0 for index in indices):
        raise ValueError(f"GPU indices {indices}: an index is negative")


def parse_time(value: str | int) -> int:
    """Convert a duration such as "1.5h" to whole seconds, rounded up. Return an integer unchanged."""
    return _in_units(value, 1, _SECONDS)


def parse_memory_size(value: str | int) -> int:
    """Convert a size such as "2gb" to whole MiB, rounded up. Return an integer unchanged."""
    return _in_units(value, 1 << 20, _BYTES)


def _in_units(value: str | int, target: int, units: Mapping[str, int]) -> int:
    if not isinstance(value, str):
        return value
    for unit, factor in units.items():
        if value.lower().endswith(unit):
            return math.ceil(float(value[: -len(unit)]) * factor / target)
    raise ValueError(f"{value!r} has no unit; the valid units are {', '.join(units)}")
