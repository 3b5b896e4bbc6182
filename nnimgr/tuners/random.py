"""Random search: every parameter set is drawn independently, and none is given twice."""

from __future__ import annotations

import json
from random import Random
from typing import Any, ClassVar

from nnimgr import search_space as spaces
from nnimgr.algorithm import NoMoreTrialError, Tuner
from nnimgr.tuners import grid

__all__ = ["RandomTuner"]


class RandomTuner(Tuner):
    """Draws each set with a generator made from (seed, parameter id), so nothing has to be repeated.

    A set that was given before is replaced by the first point of a grid that was not; when the grid holds no
    such point, NoMoreTrialError. Where a continuous parameter makes repetition impossible in practice, and in
    an empty space, where there is nothing to vary, no set is ever remembered.

    ``optimize_mode`` is accepted and not used. ``seed`` None: another one in each process.
    """

    learns: ClassVar[bool] = False

    def __init__(self, optimize_mode: str = "minimize", seed: int | None = None) -> None:
        self._seed = Random().getrandbits(64) if seed is None else seed
        self._space = spaces.Space(())
        self._repeats = False
        self._given: set[str] = set()
        self._level = self._index = 0  # all points of the grid before this one were given

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self._space = spaces.parse(search_space)
        self._repeats = bool(self._space.parameters) and not any(
            isinstance(spec, spaces.Numeric)
            and spec.q is None
            and spec.type is not spaces.ParameterType.RANDINT
            for _, spec in self._space.parameters
        )
        self._level = self._index = 0

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        parameters = spaces.sample(self._space, Random(f"{self._seed}/{parameter_id}"))
        if self._repeats:
            if _key(parameters) in self._given:
                parameters = self._next_of_grid()
            self._given.add(_key(parameters))
        return parameters

    def recall(self, parameter_id: int, parameters: Any) -> None:
        """An earlier process suggested this set."""
        if self._repeats:
            self._given.add(_key(parameters))

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        pass

    def _next_of_grid(self) -> dict[str, Any]:
        size = grid.size(self._space, self._level)
        while True:
            if self._index == size:
                finer = grid.size(self._space, self._level + 1)
                if finer == size:
                    raise NoMoreTrialError("every parameter set of the search space was suggested")
                self._level, self._index, size = self._level + 1, 0, finer
            parameters = grid.item(self._space, self._level, self._index)
            if _key(parameters) not in self._given:
                return parameters
            self._index += 1


def _key(parameters: Any) -> str:
    return json.dumps(parameters, sort_keys=True)
