"""Random search: every parameter set is drawn independently, and none is given twice."""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar

from nnimgr import search_space as spaces
from nnimgr.algorithm import Past, Tuner
from nnimgr.tuners.given import Given, can_repeat

__all__ = ["RandomTuner"]


class RandomTuner(Tuner):
    """Draws each set with a generator made from (seed, parameter id), so nothing has to be repeated.

    A set that was given before is replaced by the first point of a grid that was not; when the grid holds no
    such point, NoMoreTrialError. Where sets cannot repeat (``given.can_repeat``) none is ever remembered.

    ``optimize_mode`` is accepted and not used. ``seed`` None: another one in each process.
    """

    learns: ClassVar[bool] = False

    def __init__(self, optimize_mode: str = "minimize", seed: int | None = None) -> None:
        self._seed = Random().getrandbits(64) if seed is None else seed
        self._space = spaces.Space(())
        self._repeats = False
        self._given = Given()

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        repeats = any(can_repeat(spaces.parse(space)) for space in search_spaces)
        return Past.SUGGESTIONS if repeats else Past.NOTHING

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self._space = spaces.parse(search_space)
        self._repeats = can_repeat(self._space)
        self._given.change(self._space)

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        parameters = spaces.sample(self._space, Random(f"{self._seed}/{parameter_id}"))
        if self._repeats and not self._given.add(parameters):
            return self._given.next_of_grid()
        return parameters

    def recall(self, parameter_id: int, parameters: Any) -> None:
        """An earlier process suggested this set."""
        if self._repeats:
            self._given.remember(parameters)

    def take_back(self, parameter_id: int, parameters: Any) -> None:
        """The set was never tried."""
        self._given.forget(parameters)

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        pass
