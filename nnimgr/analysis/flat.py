"""Parameter sets without nesting: how a nested choice becomes several parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["flat", "is_branch"]


def is_branch(value: Any) -> bool:
    """Whether it is what a nested choice gives: one of its sub-spaces, by name, with its parameters."""
    return type(value) is dict and "_name" in value


def flat(parameters: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values: ``{"net": {"_name": "conv", "size": 3}}`` has ``net/_name`` and ``net/size``."""
    for key, value in parameters.items():
        if is_branch(value):
            yield from flat(value, f"{prefix}{key}/")
        else:
            yield prefix + key, value
