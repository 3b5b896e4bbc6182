"""Types of single values in a configuration, which several models use."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator

from training_services.units import parse_duration

__all__ = ["Duration", "Positive", "finite", "whole"]


def whole(value: Any) -> Any:
    """Return a whole number. ``true`` becomes 1, as in NNI."""
    return int(value) if isinstance(value, bool) else value


def finite(value: Any) -> float:
    """Return the value. Raise ValueError if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {value!r}")
    return value


def _duration(value: Any) -> str | int:
    parse_duration(value)
    return value  # type: ignore[no-any-return]


Duration = Annotated[str | int, PlainValidator(_duration)]  # the value stays in the user's notation
Positive = Annotated[int, BeforeValidator(whole), Field(gt=0)]
