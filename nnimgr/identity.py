"""When two parameter sets are the same one. Standard library only."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["identity"]


def identity(parameters: Any) -> str:
    """JSON text that equal parameter sets share: keys in order, numbers by value (1 and 1.0 are one)."""
    return json.dumps(_by_value(parameters), sort_keys=True)


def _by_value(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _by_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_by_value(inner) for inner in value]
    return value
