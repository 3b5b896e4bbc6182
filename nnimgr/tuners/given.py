"""Record of the parameter sets that were given, so that no set is given twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from nnimgr.algorithm import NoMoreTrialError
from nnimgr.identity import identity
from nnimgr.search_space import Numeric, ParameterType, Space
from nnimgr.tuners import grid

__all__ = ["Given", "can_repeat"]

_MOST_INFEASIBLE = 200_000  # consecutive infeasible grid points after which the search of the grid ends


def can_repeat(space: Space) -> bool:
    """Return True if the same set is likely to be drawn twice.

    It is not if a parameter of the first level is continuous, nor in an empty space, where nothing can vary.
    """
    return bool(space.parameters) and not any(
        isinstance(spec, Numeric) and spec.q is None and spec.type is not ParameterType.RANDINT
        for _, spec in space.parameters
    )


class Given:
    """The sets given so far, in all spaces, and the position in the grid."""

    def __init__(self) -> None:
        # Number of times each set was given, or run by a user: identity -> count.
        self._times: Counter[str] = Counter()
        self._space = Space(())
        self._feasible: Callable[[Any], bool] | None = None
        self._level = self._index = 0  # all points of the grid before this one were given

    def change(self, space: Space, feasible: Callable[[Any], bool] | None = None) -> None:
        """Change to the grid of another space, of which only the ``feasible`` points count."""
        self._space, self._feasible = space, feasible
        self._level = self._index = 0

    def add(self, parameters: Any) -> bool:
        """Remember a set unless it is known. Return whether it was new."""
        if self.knows(parameters):
            return False
        self.remember(parameters)
        return True

    def knows(self, parameters: Any) -> bool:
        """Return True if the set was given before, or run by a user."""
        return identity(parameters) in self._times

    def remember(self, parameters: Any) -> None:
        """Count the set one more time as given or run by a user."""
        self._times[identity(parameters)] += 1

    def forget(self, parameters: Any) -> None:
        """Count the set one time less. With a count of zero, the set counts as never given."""
        key = identity(parameters)
        if key not in self._times:
            return
        self._times[key] -= 1
        if not self._times[key]:
            del self._times[key]
            self._level = self._index = 0

    def next_of_grid(self) -> dict[str, Any]:
        """Return the first point of the grid that was not given, and remember it. Raise NoMoreTrialError."""
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
        """At the end of a level, continue with the next level if that has more points."""
        if self._index < grid.size(self._space, self._level):
            return
        if not grid.refines(self._space, self._level):
            raise NoMoreTrialError("every parameter set of the search space was suggested")
        self._level, self._index = self._level + 1, 0
