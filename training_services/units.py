"""Parsers for durations, sizes and GPU lists in NNI's format; each raises ValueError with one sentence."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Any

__all__ = [
    "parse_bytes",
    "parse_cpu_number",
    "parse_duration",
    "parse_gpu_indices",
    "parse_gpu_number",
    "parse_size",
]

_QUANTITY = re.compile(r"\s*((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)\s*([a-z]*)\s*", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"b": 1, "kb": 1024, "mb": 1024**2, "gb": 1024**3, "tb": 1024**4}
_DISK_BYTES = {**_BYTES, "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4}
_LONGEST = timedelta(days=36500)


def parse_duration(value: Any) -> timedelta:
    """Parse a duration: a whole number of seconds, or a number with the unit s, m, h or d.

    The result is rounded up to full seconds.
    """
    if isinstance(value, int):
        seconds = int(value)
    else:
        seconds = _count(value, _SECONDS, per=1, example="30s, 10m, 0.5h or 2d")
    if seconds <= 0:
        raise ValueError(f"{value!r} is not longer than zero")
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{value!r} is longer than {_LONGEST.days} days")
    return timedelta(seconds=seconds)


def parse_size(value: Any) -> int:
    """Parse an amount of memory and return it in MB, rounded up.

    The value is a whole number of MB, or a number with the unit b, kb, mb, gb or tb.
    """
    megabytes = (
        int(value)
        if isinstance(value, int)
        else _count(value, _BYTES, per=_BYTES["mb"], example="512mb, 8gb or 1.5tb")
    )
    if megabytes <= 0:
        raise ValueError(f"{value!r} is not larger than zero")
    return megabytes


def parse_bytes(value: Any) -> int:
    """Parse an amount of disk space, and return it in bytes, rounded up: a number with one of the units."""
    example = "500MiB, 50GiB or 1.5TiB"
    if not isinstance(value, str):
        raise ValueError(f"{value!r} has no unit; write text like {example}")
    size = _count(value, _DISK_BYTES, per=1, example=example)
    if size <= 0:
        raise ValueError(f"{value!r} is not larger than zero")
    return size


def parse_gpu_number(value: Any) -> int | float:
    """Parse the number of GPUs of a trial: a whole number, or a fraction below 1 of one GPU."""
    if not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number of GPUs; write 0, 0.5 or 2")
    if not value >= 0:
        raise ValueError(f"must be at least 0, not {value!r}")
    if value == value // 1:
        return int(value)
    if value > 1:
        raise ValueError(f"must be a whole number, or a fraction below 1 of one GPU, not {value!r}")
    return value


def parse_cpu_number(value: Any) -> int | float:
    """Parse the number of CPUs of a trial: a number above 0, which may be a fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number of CPUs; write 0.5, 1 or 4")
    if value >= 1_000_000:
        raise ValueError(f"must be below 1000000, not {value!r}")
    if not value > 0:
        raise ValueError(f"must be above 0, not {value!r} (remove the field to not count CPUs)")
    return int(value) if value == value // 1 else value


def parse_gpu_indices(value: Any) -> list[int]:
    """Parse the numbers (indices) of GPUs: a list, one number, or text such as '0,2'."""
    if isinstance(value, str):
        try:
            indices = [int(part) for part in value.split(",")]
        except ValueError:
            raise ValueError(
                f"{value!r} is not a list of GPU numbers; write one like [0, 2] or '0,2'"
            ) from None
    elif isinstance(value, int) and not isinstance(value, bool):
        indices = [value]
    elif isinstance(value, list | tuple) and all(type(index) is int for index in value):
        indices = list(value)
    else:
        raise ValueError(f"{value!r} is not a list of GPU numbers; write one like [0, 2] or '0,2'")
    if any(index < 0 for index in indices):
        raise ValueError(f"{value!r} has a negative GPU number")
    if len(set(indices)) != len(indices):
        raise ValueError(f"{value!r} names a GPU twice")
    return indices


def _count(value: Any, units: dict[str, int], *, per: int, example: str) -> int:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is neither a whole number nor text like {example}")
    match = _QUANTITY.fullmatch(value)
    unit = match.group(2).lower() if match else ""
    if match is None or unit not in units:
        raise ValueError(
            f"{value!r} is not a number with one of the units {', '.join(units)}; write {example}"
        )
    exact = Decimal(match.group(1)) * units[unit] / per
    return int(exact.to_integral_value(rounding=ROUND_CEILING))
