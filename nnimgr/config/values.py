"""Types of single values in a configuration, which several models use."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from nnimgr.expressions import ExpressionError
from nnimgr.needs import NeedExpression, is_expression
from training_services.units import (
    parse_bytes,
    parse_cpu_number,
    parse_duration,
    parse_gpu_number,
    parse_size,
)

__all__ = [
    "ByteSize",
    "Command",
    "CpuNumber",
    "DiskSize",
    "Duration",
    "GpuNumber",
    "MemorySize",
    "Natural",
    "Positive",
    "finite",
    "memory_size",
    "whole",
]


_LARGEST = sys.float_info.max


def _command(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def whole(value: Any) -> Any:
    """Return a whole number. ``true`` becomes 1, as in NNI."""
    return int(value) if isinstance(value, bool) else value


def finite(value: Any) -> float:
    """Return the value. Raise ValueError if it is not a finite number, or too large for a float."""
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"must be a finite number, not {value!r:.60}")
    return value  # type: ignore[no-any-return]


def _duration(value: Any) -> str | int:
    parse_duration(value)
    return value  # type: ignore[no-any-return]


def _size(value: Any) -> str | int:
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not an amount of memory; write 512mb or 8gb")
    parse_size(value)
    return value  # type: ignore[no-any-return]


def _disk_size(value: Any) -> str:
    parse_bytes(value)
    return str(value)


def memory_size(value: Any) -> str | int:
    """Return the value of ``trialMemorySize``: an amount of memory, or an expression."""
    return value if _is_need("trialMemorySize", value) else _size(value)


def _gpu_number(value: Any) -> int | float | str:
    return value if _is_need("trialGpuNumber", value) else parse_gpu_number(value)


def _cpu_number(value: Any) -> int | float | str:
    return value if _is_need("trialCpuNumber", value) else parse_cpu_number(value)


def _is_need(field: str, value: Any) -> bool:
    """Return whether the value is an expression over a trial's parameters.

    Raise ValueError if its syntax is wrong. Its names are checked with the search space.
    """
    if not is_expression(value):
        return False
    try:
        NeedExpression(field, value)
    except ExpressionError as error:
        raise ValueError(f"the expression {error}") from error
    return True


# Amounts of memory stay in the user's notation. Those of trials may be expressions.
ByteSize = Annotated[str | int, PlainValidator(_size)]
MemorySize = Annotated[str | int, PlainValidator(memory_size)]
DiskSize = Annotated[str, PlainValidator(_disk_size)]
GpuNumber = Annotated[int | float | str, PlainValidator(_gpu_number)]
CpuNumber = Annotated[int | float | str, PlainValidator(_cpu_number)]
Command = Annotated[str, AfterValidator(_command)]
Duration = Annotated[str | int, PlainValidator(_duration)]  # the value stays in the user's notation
Natural = Annotated[int, BeforeValidator(whole), Field(ge=0)]
Positive = Annotated[int, BeforeValidator(whole), Field(gt=0)]
