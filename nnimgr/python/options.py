"""Types and values of arguments that several functions of the Python API have."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from nnimgr.python.errors import ArgumentError

__all__ = ["SHIPS", "Goal", "Ship", "Show", "algorithm_field", "check_show", "conditions_of", "duration_of"]

Goal = str | bool | Sequence[str] | None
"""Metric, or metrics, to maximize or minimize. True: a result is one number."""

Ship = Literal["path", "pickle"]
"""How a function reaches its trials: they import its file, or load its pickle."""

SHIPS = ("path", "pickle")

Show = Literal["auto", "live", "table", "nothing"]
"""What a waiting program shows. "live" is for terminals and notebooks; "auto" chooses "live" or "table"."""


def check_show(show: str) -> None:
    """Raise ArgumentError if the argument ``show`` does not have one of the valid values."""
    if show not in get_args(Show):
        raise ArgumentError(f"show: unknown value {show!r} (valid: {', '.join(get_args(Show))})")


def conditions_of(constraints: str | Sequence[str] | None) -> list[str] | None:
    """Return the conditions on parameters as a list. A single one may be a text."""
    if constraints is None:
        return None
    return [constraints] if isinstance(constraints, str) else list(constraints)


def duration_of(hours: float) -> str:
    """Return a number of hours in the form of a configuration. Raise ArgumentError."""
    if not isinstance(hours, int | float) or not 0 < hours < math.inf:
        raise ArgumentError(f"hours: must be a number greater than 0, not {hours!r}")
    return f"{math.ceil(hours * 3600)}s"


def algorithm_field(
    given: str | Mapping[str, Any] | None, *, seed: int | None = None
) -> dict[str, Any] | None:
    """Return the field for an algorithm or a sink. A relative ``codeDirectory`` starts from the working
    directory.
    """
    if given is None:
        return None
    found: dict[str, Any] = {"name": given} if isinstance(given, str) else dict(given)
    if isinstance(found.get("codeDirectory"), str | os.PathLike):
        found["codeDirectory"] = os.path.abspath(os.path.expanduser(found["codeDirectory"]))
    if seed is not None:
        found["classArgs"] = {**(found.get("classArgs") or {}), "seed": seed}
    return found
