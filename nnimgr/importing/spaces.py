"""Search space for trials of which only the parameters are known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["options_at", "space_of"]

_WIDE = 1000  # a positive range whose ends differ by this factor is searched by its logarithm


def space_of(parameter_sets: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the smallest search space that contains all parameter sets."""
    values: dict[str, list[Any]] = {}
    for parameters in parameter_sets:
        for name, value in parameters.items():
            values.setdefault(name, []).append(value)
    return {name: _spec(each) for name, each in values.items()}


def _spec(values: list[Any]) -> dict[str, Any]:
    numeric = all(type(value) in (int, float) for value in values)
    low, high = (min(values), max(values)) if numeric else (0, 0)
    if not numeric or low == high:
        distinct = {json.dumps(value, sort_keys=True, default=str): value for value in values}
        return {"_type": "choice", "_value": list(distinct.values())}
    if all(type(value) is int for value in values):
        return {"_type": "randint", "_value": [low, high + 1]}
    return {"_type": "loguniform" if low > 0 and high >= _WIDE * low else "uniform", "_value": [low, high]}


def options_at(space: Mapping[str, Any], keys: Sequence[str]) -> list[Any]:
    """Return the values from which a choice is made; [] for parameters of other types, and unknown ones.

    ``keys``: the name of the parameter, with those of the nested choices that have it.
    """
    specs = [space.get(keys[0])]
    for key in keys[1:]:
        branches = (option for spec in specs for option in _options(spec) if isinstance(option, Mapping))
        specs = [branch[key] for branch in branches if key in branch]
    return [option for spec in specs for option in _options(spec)]


def _options(spec: Any) -> Sequence[Any]:
    options = spec.get("_value") if isinstance(spec, Mapping) and spec.get("_type") == "choice" else ()
    return options if isinstance(options, list) else ()
