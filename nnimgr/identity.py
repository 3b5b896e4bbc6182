"""Comparison of parameter sets, to find duplicates. Standard library only."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["identity"]


def identity(parameters: Any) -> str:
    """Return a JSON text that is the same for equal parameter sets.

    Keys are sorted, and numbers with the same value have the same text (1 and 1.0).
    """
    return json.dumps(_by_value(parameters), sort_keys=True)


def _by_value(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _by_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_by_value(inner) for inner in value]
    return value
