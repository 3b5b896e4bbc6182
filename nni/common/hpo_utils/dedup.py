"""Replacement of parameter sets that a tuner has suggested before."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import count
from statistics import NormalDist
from typing import Any

from nni.common.hpo_utils.formatting import ParameterKey, ParameterSpec, deformat_parameters
from nnimgr.algorithm import NoMoreTrialError
from nnimgr.identity import identity

__all__ = ["Deduplicator"]

_FINEST = 12  # the finest grid of a continuous parameter has 2 ** 12 - 1 values


class Deduplicator:
    """Filter for a tuner's parameter sets that replaces each repeated set by another one.

    The replacement is the next set of a grid over the search space. When all sets of the space were returned,
    NoMoreTrialError is raised. Parameter sets are in the form that ``format_parameters`` returns.
    """

    def __init__(self, formatted_search_space: Mapping[ParameterKey, ParameterSpec]) -> None:
        self._space = formatted_search_space
        self._endless = any(_has_no_steps(spec) for spec in formatted_search_space.values())
        self._known: set[str] = set()
        self._grid = self._all_sets()

    def __call__(self, formatted_parameters: dict[ParameterKey, Any]) -> dict[ParameterKey, Any]:
        """Return the parameter set, or another one if this set was returned before."""
        if self._endless or self._is_new(formatted_parameters):
            return formatted_parameters
        for found in self._grid:
            if self._is_new(found):
                return found
        raise NoMoreTrialError("all parameter sets of the search space have been suggested")

    def add_history(self, formatted_parameters: dict[ParameterKey, Any]) -> None:
        """Count this parameter set as already returned."""
        self._is_new(formatted_parameters)

    def _is_new(self, formatted: dict[ParameterKey, Any]) -> bool:
        text = identity(deformat_parameters(formatted, self._space))
        known = text in self._known
        self._known.add(text)
        return not known

    def _all_sets(self) -> Iterator[dict[ParameterKey, Any]]:
        specs = list(self._space.values())
        refines = any(spec.q is None and not spec.categorical for spec in specs)
        for level in count(1):
            yield from _sets(specs, {}, level)
            if not refines or level == _FINEST:
                return


def _sets(
    specs: list[ParameterSpec], chosen: dict[ParameterKey, Any], level: int
) -> Iterator[dict[ParameterKey, Any]]:
    if not specs:
        yield dict(chosen)
        return
    first, *others = specs
    if not first.is_activated_in(chosen):
        yield from _sets(others, chosen, level)
        return
    for value in _values(first, level):
        yield from _sets(others, {**chosen, first.key: value}, level)


def _values(spec: ParameterSpec, level: int) -> Iterator[Any]:
    """Yield the values of a parameter for a grid: all values if these are finitely many, else ``2 ** level -
    1`` values.
    """
    if spec.categorical:
        yield from range(spec.size or 0)
    elif spec.clip is not None and spec.q is not None:
        low, high = spec.clip
        steps = [low, *(n * spec.q for n in range(math.ceil(low / spec.q), int(high // spec.q) + 1)), high]
        yield from (math.log(value) if spec.log_distributed else value for value in steps if low <= value)
    elif spec.sigma == 0 or (spec.low is not None and spec.low == spec.high):
        yield spec.mu if spec.normal_distributed else spec.low
    else:
        shares = [n / 2**level for n in range(1, 2**level)]
        if spec.normal_distributed:
            normal = NormalDist(spec.mu or 0.0, spec.sigma or 1.0)
            yield from map(normal.inv_cdf, shares)
        elif spec.low is not None and spec.high is not None:
            yield from (spec.low + share * (spec.high - spec.low) for share in shares)


def _has_no_steps(spec: ParameterSpec) -> bool:
    """Return whether the parameter is continuous and part of every parameter set, so that sets do not
    repeat.
    """
    if spec.categorical or spec.is_nested() or spec.q is not None:
        return False
    if spec.normal_distributed:
        return bool(spec.sigma)
    return spec.low != spec.high
