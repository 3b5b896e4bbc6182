"""Record of the parameter sets that a tuner has suggested, so that it suggests no set twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from nnimgr.algorithm import NoMoreTrialError
from nnimgr.identity import identity
from nnimgr.search_space import Numeric, ParameterType, Space
from nnimgr.tuners import grid

__all__ = ["Given", "can_repeat"]

_MOST_INFEASIBLE = (
    200_000  # number of grid points in a row that violate the constraints, after which the search ends
)


def can_repeat(space: Space) -> bool:
    """Return True if random draws from a search space are likely to give the same parameter set twice.

    Return False if a parameter that is not nested is continuous, and for a space without parameters.
    """
    return bool(space.parameters) and not any(
        isinstance(spec, Numeric) and spec.q is None and spec.type is not ParameterType.RANDINT
        for _, spec in space.parameters
    )


class Given:
    """The parameter sets that were suggested, in all search spaces so far, and the position in a grid of
    further sets.
    """

    def __init__(self) -> None:
        # parameter set (its identity) -> number of times it was suggested, or added by a user
        self._times: Counter[str] = Counter()
        self._space = Space(())
        self._feasible: Callable[[Any], bool] | None = None
        self._level = self._index = 0  # position in the grid; all earlier points were suggested

    def change(self, space: Space, feasible: Callable[[Any], bool] | None = None) -> None:
        """Use the grid of another search space from now on.

        Grid points that are not ``feasible`` are skipped.
        """
        self._space, self._feasible = space, feasible
        self._level = self._index = 0

    def add(self, parameters: Any) -> bool:
        """Record a parameter set as suggested. Return whether it was new."""
        if self.knows(parameters):
            return False
        self.remember(parameters)
        return True

    def knows(self, parameters: Any) -> bool:
        """Return True if the parameter set was suggested before, or added by a user."""
        return identity(parameters) in self._times

    def remember(self, parameters: Any) -> None:
        """Count a parameter set one more time as suggested by the tuner or added by a user."""
        self._times[identity(parameters)] += 1

    def forget(self, parameters: Any) -> None:
        """Count a parameter set one time less. When its count is 0, it may be suggested again."""
        key = identity(parameters)
        if key not in self._times:
            return
        self._times[key] -= 1
        if not self._times[key]:
            del self._times[key]
            self._level = self._index = 0

    def next_of_grid(self) -> dict[str, Any]:
        """Return the next point of the grid that was not suggested before, and record it.

        Raise NoMoreTrialError if none is found.
        """
        infeasible = 0
        while infeasible < _MOST_INFEASIBLE:
            self._enter_level()
            parameters = grid.item(self._space, self._level, self._index)
            self._index += 1
            if self._feasible is not None and not self._feasible(parameters):
                infeasible += 1
            elif self.add(parameters):
                return parameters
        raise NoMoreTrialError(
            f"found no further parameter set: {infeasible:,} points of the grid in a row do not meet the "
            "constraints"
        )

    def _enter_level(self) -> None:
        """At the end of a grid, continue with a finer grid.

        Raise NoMoreTrialError if a finer grid has no further points.
        """
        if self._index < grid.size(self._space, self._level):
            return
        if not grid.refines(self._space, self._level):
            raise NoMoreTrialError("every parameter set of the search space was suggested")
        self._level, self._index = self._level + 1, 0
