"""Checks of constraints on a search space: their parameter names, and how many parameter sets meet them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from nnimgr import search_space as spaces
from nnimgr.constraints import Constraint, Constraints
from nnimgr.expressions import ExpressionError, Names, names_of

__all__ = ["BadConstraint", "Feasibility", "constraints_on", "feasibility", "names_in", "options"]

_DRAWS = 10_000
_ENOUGH = 1_000  # number of drawn sets that is enough if the share of feasible sets is clear
_PRECISION = 0.01  # half width of the share's 95 % confidence interval that is small enough
_LONGEST_S = 3.0
_LEAST_SHARE = 0.001


class BadConstraint(ValueError):
    """Error: the constraint at position ``index`` (from 0) cannot be used. The message is one sentence.

    ``nearest``: the name that the user probably meant.
    """

    def __init__(self, index: int, sentence: str, *, nearest: str | None = None) -> None:
        super().__init__(sentence)
        self.index, self.nearest = index, nearest


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Result of a check of all constraints. ``feasible``: number of parameter sets that meet them.

    ``sets``: number of parameter sets that were checked. ``listed``: True if these are all sets of the space.
    ``warnings``: pairs of a constraint's position (from 0) and a sentence.
    """

    feasible: int
    sets: int
    listed: bool
    warnings: tuple[tuple[int, str], ...]

    @property
    def share(self) -> float:
        return self.feasible / self.sets

    def __str__(self) -> str:
        if self.listed:
            return f"{self.feasible:,} of the {self.sets:,} parameter sets meet the constraints"
        return f"about {_percent(self.share)} of the search space meets the constraints"


def constraints_on(space: Mapping[str, Any], constraints: Sequence[str], *, batch: bool) -> Constraints:
    """Return the constraints, after a check that they use only parameter names of the search space.

    Raise BadConstraint or SearchSpaceError.
    """
    names = names_in(space, batch=batch)
    for index, text in enumerate(constraints):
        _read(index, text, names)
    return Constraints(constraints, names)


def feasibility(space: Mapping[str, Any], constraints: Sequence[str], *, batch: bool) -> Feasibility:
    """Estimate the share of a search space that meets all constraints, by random sets with a fixed seed.

    The first call takes up to three seconds. Raise BadConstraint or SearchSpaceError.
    """
    return _feasibility(json.dumps(space), tuple(constraints), batch)


@lru_cache(maxsize=256)
def _feasibility(space_text: str, texts: tuple[str, ...], batch: bool) -> Feasibility:
    space = json.loads(space_text)
    names = names_in(space, batch=batch)
    constraints = [_read(index, text, names) for index, text in enumerate(texts)]
    trials = [_Trial(constraint) for constraint in constraints]
    feasible = drawn = 0
    for parameters in options(space) if batch else _drawn(spaces.parse(space)):
        drawn += 1
        feasible += all([trial.meets(parameters) for trial in trials])
        if not batch and drawn % 250 == 0 and _is_certain(feasible, drawn):
            break
    warnings = tuple((index, trial.warning) for index, trial in enumerate(trials) if trial.troubles)
    found = Feasibility(feasible, drawn, listed=batch, warnings=warnings)
    if found.share < _LEAST_SHARE:
        _refuse(found, trials)
    return found


def names_in(space: Mapping[str, Any], *, batch: bool) -> Names:
    """Return the names that expressions may use in a search space. ``batch``: it is for the tuner Batch."""
    if not batch:
        return names_of(spaces.parse(space))
    return {str(key): None for option in options(space) if isinstance(option, Mapping) for key in option}


def _read(index: int, text: str, names: Names) -> Constraint:
    try:
        return Constraint(text, names)
    except ExpressionError as error:
        raise BadConstraint(index, str(error), nearest=error.nearest) from error


def options(space: Mapping[str, Any]) -> list[Any]:
    """Return the parameter sets in a search space for the tuner Batch."""
    (spec,) = space.values()
    return list(spec["_value"])


def _drawn(space: spaces.Space) -> Iterator[dict[str, Any]]:
    rng, until = Random(0), time.monotonic() + _LONGEST_S
    for count in range(_DRAWS):
        if count % 100 == 0 and count and time.monotonic() > until:
            return
        yield spaces.sample(space, rng)


def _is_certain(feasible: int, drawn: int) -> bool:
    share = feasible / drawn
    half_width = 1.96 * (share * (1 - share) / drawn) ** 0.5
    return drawn >= _ENOUGH and feasible >= 100 and half_width <= _PRECISION


@dataclass(slots=True)
class _Trial:
    """One constraint, with the results of its checks on parameter sets."""

    constraint: Constraint
    sets: int = 0
    failures: int = 0
    troubles: int = 0  # number of checks in which the constraint had no value
    trouble: str = ""
    example: Any = None

    @property
    def warning(self) -> str:
        share = _percent(self.troubles / self.sets)
        return f"has no value for {share} of the parameter sets, which counts as not met: {self.trouble}"

    def meets(self, parameters: Any) -> bool:
        self.sets += 1
        if self.constraint.holds(parameters):
            return True
        self.failures += 1
        self.example = parameters
        trouble = self.constraint.trouble(parameters)
        if trouble is not None:
            self.troubles, self.trouble = self.troubles + 1, trouble
        return False


def _refuse(found: Feasibility, trials: Sequence[_Trial]) -> None:
    index, worst = max(enumerate(trials), key=lambda pair: pair[1].failures)
    if worst.troubles == worst.sets:
        raise BadConstraint(index, f"can never be met, because {worst.trouble}")
    which = f"the {found.sets:,} parameter sets" if found.listed else f"{found.sets:,} random parameter sets"
    meet = "meet" if found.feasible > 1 else "meets"
    example = f"{json.dumps(worst.example, ensure_ascii=False):.300}"
    raise BadConstraint(
        index,
        f"{found.feasible or 'none'} of {which} {meet} all constraints, but at least "
        f"{_percent(_LEAST_SHARE)} must. For example, {example} does not: "
        f"{worst.constraint.complaint(worst.example)}",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
