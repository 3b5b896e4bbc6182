"""Which parameter sets were given, so that none is given twice."""

from __future__ import annotations

import json
from typing import Any

from nnimgr.algorithm import NoMoreTrialError
from nnimgr.search_space import Numeric, ParameterType, Space
from nnimgr.tuners import grid

__all__ = ["Given", "can_repeat"]


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
        self._keys: set[str] = set()
        self._space = Space(())
        self._level = self._index = 0  # all points of the grid before this one were given

    def change(self, space: Space) -> None:
        """The grid is that of another space from now on."""
        self._space = space
        self._level = self._index = 0

    def add(self, parameters: Any) -> bool:
        """Remember a set; False if it was known."""
        before = len(self._keys)
        self._keys.add(json.dumps(parameters, sort_keys=True))
        return len(self._keys) > before

    def next_of_grid(self) -> dict[str, Any]:
        """The first point of the grid that was not given; it is now. Raises NoMoreTrialError."""
        while True:
            self._enter_level()
            parameters = grid.item(self._space, self._level, self._index)
            self._index += 1
            if self.add(parameters):
                return parameters

    def _enter_level(self) -> None:
        """Go on with the next level when one is through, if that has more points."""
        size = grid.size(self._space, self._level)
        if self._index < size:
            return
        if grid.size(self._space, self._level + 1) == size:
            raise NoMoreTrialError("every parameter set of the search space was suggested")
        self._level, self._index = self._level + 1, 0
