"""Search spaces as flat tables of parameters, and conversion of parameter sets to numbers.

A parameter's key is its path: ``("layer", 1, "units")`` is the parameter "units" of the second option of the
nested choice "layer". In the *formatted* form of a parameter set, the value of a choice is the index of its
option. A randint is counted from its lower bound, and a logarithmic parameter is given by its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = [
    "FormattedParameters",
    "FormattedSearchSpace",
    "ParameterKey",
    "ParameterSpec",
    "deformat_parameters",
    "format_parameters",
    "format_search_space",
]

ParameterKey = tuple[str | int, ...]


class ParameterSpec(NamedTuple):
    """Description of one parameter of a search space.

    If ``log_distributed`` is set, then ``low``, ``high``, ``mu`` and ``sigma`` describe the logarithm of the
    value. ``size``: the number of options of a choice or randint. ``clip``: the bounds of a value that is
    rounded to multiples of ``q``.
    """

    name: str
    type: str
    values: list[Any]
    key: ParameterKey
    categorical: bool
    size: int | None = None
    chosen_size: int | None = 1
    low: float | None = None
    high: float | None = None
    normal_distributed: bool | None = None
    mu: float | None = None
    sigma: float | None = None
    q: float | None = None
    clip: tuple[float, float] | None = None
    log_distributed: bool | None = None

    def is_nested(self) -> bool:
        """Return whether the parameter belongs to an option of a nested choice."""
        return len(self.key) >= 2 and isinstance(self.key[-2], int)

    def is_activated_in(self, partial_parameters: Mapping[ParameterKey, Any]) -> bool:
        """Return whether the parameter is in use: it is not nested, or the option to which it belongs is
        chosen.

        ``partial_parameters`` must contain all parameters that come before this one in the table of the
        search space.
        """
        return not self.is_nested() or partial_parameters.get(self.key[:-2]) == self.key[-2]


FormattedParameters = dict[ParameterKey, Any]
FormattedSearchSpace = dict[ParameterKey, ParameterSpec]


def format_search_space(search_space: Mapping[str, Any]) -> dict[ParameterKey, ParameterSpec]:
    """Return a search space as a flat table: key of a parameter -> its description.

    A nested choice comes before the parameters of its options.
    """
    return {spec.key: spec for spec in _specs((), search_space)}


def deformat_parameters(
    formatted_parameters: Mapping[ParameterKey, Any],
    formatted_search_space: Mapping[ParameterKey, ParameterSpec],
) -> dict[str, Any]:
    """Convert a formatted parameter set, in which choices are indices, to the form that a trial gets."""
    found: dict[str, Any] = {}
    for key, value in formatted_parameters.items():
        spec = formatted_search_space[key]
        if not spec.categorical:
            _put(found, key, _number(spec, value))
        elif spec.type == "randint":
            _put(found, key, math.ceil(spec.values[0]) + int(value))
        elif _is_nested(spec.values):
            _put(found, (*key, "_name"), spec.values[value]["_name"])
        else:
            _put(found, key, spec.values[value])
    return found


def format_parameters(
    parameters: Mapping[str, Any], formatted_search_space: Mapping[ParameterKey, ParameterSpec]
) -> dict[ParameterKey, Any]:
    """Convert a parameter set as a trial gets it to the formatted form, in which choices are indices.

    Raise KeyError or ValueError if the set does not belong to this search space.
    """
    found: dict[ParameterKey, Any] = {}
    for key, spec in formatted_search_space.items():
        if not spec.is_activated_in(found):
            continue
        value: Any = parameters
        for name in key:
            value = value[name] if isinstance(name, str) else value
        if spec.type == "randint":
            found[key] = value - math.ceil(spec.values[0])
        elif not spec.categorical:
            found[key] = math.log(value) if spec.log_distributed else value
        elif _is_nested(spec.values):
            found[key] = [option["_name"] for option in spec.values].index(value["_name"])
        else:
            found[key] = spec.values.index(value)
    return found


def _specs(above: ParameterKey, space: Mapping[str, Any]) -> Iterator[ParameterSpec]:
    for name, described in space.items():
        if name == "_name":
            continue
        key, values = (*above, name), described["_value"]
        yield _spec(key, described["_type"], values)
        if described["_type"] == "choice" and _is_nested(values):
            for index, option in enumerate(values):
                yield from _specs((*key, index), option)


def _spec(key: ParameterKey, kind: str, values: list[Any]) -> ParameterSpec:
    base = ParameterSpec(str(key[-1]), kind, values, key, categorical=kind in ("choice", "randint"))
    if kind == "choice":
        return base._replace(size=len(values))
    if kind == "randint":
        return base._replace(size=math.ceil(values[1]) - math.ceil(values[0]))
    first, second = float(values[0]), float(values[1])
    log, normal = "log" in kind, "normal" in kind
    base = base._replace(
        q=float(values[2]) if kind.startswith("q") else None, log_distributed=log, normal_distributed=normal
    )
    if normal:
        return base._replace(mu=first, sigma=second)
    clip = (first, second) if base.q is not None else None
    if log:
        first, second = math.log(first), math.log(second)
    return base._replace(low=first, high=second, clip=clip)


def _number(spec: ParameterSpec, value: float) -> float:
    """Convert a number of a formatted parameter set to the value that a trial gets.

    Undo the logarithm, round the value, and keep it within its bounds.
    """
    if spec.log_distributed:
        value = math.exp(value)
    if spec.q is not None:
        value = round(value / spec.q) * spec.q
    if spec.clip is not None:
        value = min(max(value, spec.clip[0]), spec.clip[1])
    plain: float = value.item() if hasattr(value, "item") else value  # numpy's numbers
    return plain


def _is_nested(options: list[Any]) -> bool:
    return all(isinstance(option, Mapping) and "_name" in option for option in options)


def _put(found: dict[str, Any], key: ParameterKey, value: Any) -> None:
    """Set a value in nested dicts at the path ``key``.

    Numbers in the path, which are indices of options, are skipped.
    """
    *above, last = [name for name in key if isinstance(name, str)]
    for name in above:
        found = found.setdefault(name, {})
    found[last] = value
