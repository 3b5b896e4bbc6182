"""Changes of parameter sets in population based training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from nnimgr import search_space as spaces
from nnimgr.search_space import Choice, Nested, ParameterType, Space, Spec

__all__ = ["Explorer", "parse_mutations"]


def parse_mutations(mutations: Mapping[str, Any]) -> Space:
    """Return the space of the parameters that may be changed. A list stands for a choice of its items.

    Raise SearchSpaceError.
    """
    return spaces.parse(
        {
            name: spec if isinstance(spec, Mapping) else {"_type": "choice", "_value": spec}
            for name, spec in mutations.items()
        }
    )


class Explorer:
    """Changer of parameter sets: it draws a parameter again with the probability ``resample``, or else
    multiplies it by one of ``factors``.

    A number stays within its bounds. An integer or a number with a step ``q`` moves by at least one step. A
    choice moves to a neighbour in the list of its options.
    """

    def __init__(self, *, resample: float, factors: Sequence[float]) -> None:
        self._resample, self._factors = resample, tuple(factors)

    def changed(self, space: Space, parameters: Any, rng: Random) -> dict[str, Any]:
        """Return a changed copy. Parameters that are not in ``space`` keep their values."""
        found: dict[str, Any] = dict(parameters) if isinstance(parameters, Mapping) else {}
        for name, spec in space.parameters:
            if name not in found:
                continue
            if rng.random() < self._resample or not _fits(spec, found[name]):
                found.update(spaces.sample(Space(((name, spec),)), rng))
            else:
                found[name] = self._moved(spec, found[name], rng)
        return found

    def _moved(self, spec: Spec, value: Any, rng: Random) -> Any:
        if isinstance(spec, Nested):
            inner = dict(spec.options)[value["_name"]]
            return self.changed(inner, value, rng)
        if isinstance(spec, Choice):
            keys = [json.dumps(option, sort_keys=True) for option in spec.options]
            at = keys.index(json.dumps(value, sort_keys=True)) + rng.choice((-1, 1))
            return spec.options[min(max(at, 0), len(keys) - 1)]
        factor = rng.choice(self._factors)
        if spec.type is ParameterType.RANDINT:
            moved = _stepped(int(value), round(value * factor), 1, up=(factor > 1) == (value >= 0))
            return int(min(max(moved, spec.a), spec.b - 1))
        number = float(value * factor)
        if spec.q is not None:
            number = _stepped(value, spec.quantise(number), spec.q, up=(factor > 1) == (value >= 0))
        return spec.nearest(number)


def _fits(spec: Spec, value: Any) -> bool:
    return not spaces.contains(Space((("value", spec),)), {"value": value})


def _stepped(before: float, after: float, step: float, *, up: bool) -> float:
    """Return ``after``, or the next step above or below ``before`` if nothing has changed."""
    return after if after != before else before + (step if up else -step)
