"""Conversion of search spaces to Optuna's distributions, and of parameter sets to the parameters of its
trials.

A choice is stored as the index of the option. The parameters of a nested choice's option exist only in trials
that have chosen this option. Optuna has no distribution for parameters that are normal or rounded to ``q``.
Such a parameter is a number from 0 to 1, which is decoded as in ``encoding``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optuna import Trial
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from nnimgr.identity import identity
from nnimgr.search_space import Choice, Nested, Numeric, ParameterType, Space, Spec
from nnimgr.tuners.encoding import from_unit, to_unit

__all__ = ["Translation"]

Params = dict[str, int | float]


@dataclass(frozen=True, slots=True)
class _Part:
    """Parameter of the search space. ``key``: its name in Optuna.

    ``inner``: for a nested choice, the parameters of each option.
    """

    name: str
    key: str
    spec: Spec
    options: Mapping[str, int]  # for a choice: key of an option -> index of the first equal option
    inner: tuple[tuple[_Part, ...], ...]


class Translation:
    """Converter between the parameter sets of one search space and the parameters of Optuna's trials.

    ``distributions``: the distribution of every parameter that a trial may have.
    """

    def __init__(self, space: Space) -> None:
        self.distributions: dict[str, BaseDistribution] = {}
        self._parts = self._lay_out(space, "")

    def draw(self, trial: Trial) -> dict[str, Any]:
        """Return the parameter set that Optuna's sampler suggests for this trial."""
        return _draw(self._parts, trial)

    def params_of(self, parameters: Any) -> Params | None:
        """Return a parameter set in Optuna's form, or None if it is not in the search space."""
        found: Params = {}
        inside = isinstance(parameters, Mapping) and _encode(self._parts, parameters, found)
        return found if inside else None

    def shared_numbers(self) -> dict[str, BaseDistribution]:
        """Return the distributions of the numeric parameters that every parameter set has and that
        can vary.
        """
        return {
            part.key: self.distributions[part.key]
            for part in self._parts
            if isinstance(part.spec, Numeric) and not self.distributions[part.key].single()
        }

    def _lay_out(self, space: Space, prefix: str) -> tuple[_Part, ...]:
        parts = []
        for name, spec in space.parameters:
            key = prefix + name
            while key in self.distributions:  # the key is in use for a nested parameter
                key += "'"
            self.distributions[key] = _distribution(spec)
            options: dict[str, int] = {}
            inner: list[tuple[_Part, ...]] = []
            if not isinstance(spec, Numeric):
                for number, option in enumerate(spec.options):
                    value = option[0] if isinstance(spec, Nested) else option
                    options.setdefault(identity(value), number)
            if isinstance(spec, Nested):
                inner = [self._lay_out(within, f"{key}[{option}].") for option, within in spec.options]
            parts.append(_Part(name, key, spec, options, tuple(inner)))
        return tuple(parts)


def _distribution(spec: Spec) -> BaseDistribution:
    match spec:
        case Choice() | Nested():
            return CategoricalDistribution(range(len(spec.options)))
        case Numeric(type=ParameterType.RANDINT):
            return IntDistribution(int(spec.a), int(spec.b) - 1)
        case Numeric() if _has_own(spec):
            return FloatDistribution(spec.a, spec.b, log=spec.type.logarithmic)
    return FloatDistribution(0.0, 1.0)


def _has_own(spec: Numeric) -> bool:
    """Return whether Optuna has a distribution for this parameter's values."""
    return spec.q is None and not spec.type.gaussian


def _draw(parts: tuple[_Part, ...], trial: Trial) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        match part.spec:
            case Choice(options):
                found[part.name] = options[trial.suggest_categorical(part.key, range(len(options)))]
            case Nested(options):
                number = trial.suggest_categorical(part.key, range(len(options)))
                found[part.name] = {"_name": options[number][0], **_draw(part.inner[number], trial)}
            case Numeric(type=ParameterType.RANDINT, a=a, b=b):
                found[part.name] = trial.suggest_int(part.key, int(a), int(b) - 1)
            case Numeric() as spec if _has_own(spec):
                log = spec.type.logarithmic
                found[part.name] = float(trial.suggest_float(part.key, spec.a, spec.b, log=log))
            case Numeric() as spec:
                found[part.name] = from_unit(spec, float(trial.suggest_float(part.key, 0.0, 1.0)))
    return found


def _encode(parts: tuple[_Part, ...], parameters: Mapping[str, Any], found: Params) -> bool:
    """Add the values of a parameter set to ``found`` in Optuna's form.

    Return whether the set is in the search space.
    """
    for part in parts:
        if part.name not in parameters:
            return False
        value = parameters[part.name]
        if isinstance(part.spec, Numeric):
            number = _number(part.spec, value)
            if number is None:
                return False
            found[part.key] = number
            continue
        nested = isinstance(part.spec, Nested)
        if nested and not (isinstance(value, Mapping) and "_name" in value):
            return False
        option = part.options.get(identity(value["_name"] if nested else value))
        if option is None:
            return False
        found[part.key] = option
        if nested and not _encode(part.inner[option], value, found):
            return False
    return True


def _number(spec: Numeric, value: Any) -> int | float | None:
    unit = to_unit(spec, value)
    if unit is None or not (_has_own(spec) or spec.type is ParameterType.RANDINT):
        return unit
    if spec.type is ParameterType.RANDINT:
        return int(value)
    return min(max(float(value), spec.a), spec.b)
