"""Flattening of parameter sets: a nested choice becomes several parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["flatten", "is_branch"]


def is_branch(value: Any) -> bool:
    """Return whether the value is a branch of a nested choice: an object with ``_name`` and parameters."""
    return type(value) is dict and "_name" in value


def flatten(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each parameter in a parameter set.

    A nested choice gives several names: ``{"net": {"_name": "conv", "size": 3}}`` gives ``net/_name`` and
    ``net/size``.
    """
    for key, value in parameters.items():
        if is_branch(value):
            yield from flatten(value, f"{prefix}{key}/")
        else:
            yield prefix + key, value
