"""Which parameter sets were given, so that none is given twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from nnimgr.algorithm import NoMoreTrialError
from nnimgr.identity import identity
from nnimgr.search_space import Numeric, ParameterType, Space
from nnimgr.tuners import grid

__all__ = ["Given", "can_repeat"]

_MOST_INFEASIBLE = 200_000  # points of the grid in a row, before there are taken to be no others


def can_repeat(space: Space) -> bool:
    """Whether a set may well be drawn twice.

    Not where a continuous parameter of the first level makes it impossible in practice, and not in an empty
    space, where there is nothing to vary.
    """
    return bool(space.parameters) and not any(
        isinstance(spec, Numeric) and spec.q is None and spec.type is not ParameterType.RANDINT
        for _, spec in space.parameters
    )


class Given:
    """The sets given so far, in all spaces there were, and the points of the grid that are left."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()  # given or run otherwise, by identity
        self._space = Space(())
        self._feasible: Callable[[Any], bool] | None = None
        self._level = self._index = 0  # all points of the grid before this one were given

    def change(self, space: Space, feasible: Callable[[Any], bool] | None = None) -> None:
        """The grid is that of another space from now on; only what is ``feasible`` of it counts."""
        self._space, self._feasible = space, feasible
        self._level = self._index = 0

    def add(self, parameters: Any) -> bool:
        """Remember a set unless it was known; whether it was new."""
        if self.knows(parameters):
            return False
        self.remember(parameters)
        return True

    def knows(self, parameters: Any) -> bool:
        """Whether the set was given before, or run otherwise."""
        return identity(parameters) in self._times

    def remember(self, parameters: Any) -> None:
        """The set was given, or run otherwise, once (more)."""
        self._times[identity(parameters)] += 1

    def forget(self, parameters: Any) -> None:
        """Take back one of those times; with the last one the set counts as never given."""
        key = identity(parameters)
        if key not in self._times:
            return
        self._times[key] -= 1
        if not self._times[key]:
            del self._times[key]
            self._level = self._index = 0

    def next_of_grid(self) -> dict[str, Any]:
        """The first point of the grid that was not given; it is now. Raises NoMoreTrialError."""
        infeasible = 0
        while infeasible < _MOST_INFEASIBLE:
            self._enter_level()
            parameters = grid.item(self._space, self._level, self._index)
            self._index += 1
            if self._feasible is not None and not self._feasible(parameters):
                infeasible += 1
            elif self.add(parameters):
                return parameters
        raise NoMoreTrialError(f"{infeasible:,} points of the grid in a row do not meet the constraints")

    def _enter_level(self) -> None:
        """Go on with the next level when one is through, if that has more points."""
        if self._index < grid.size(self._space, self._level):
            return
        if not grid.refines(self._space, self._level):
            raise NoMoreTrialError("every parameter set of the search space was suggested")
        self._level, self._index = self._level + 1, 0
