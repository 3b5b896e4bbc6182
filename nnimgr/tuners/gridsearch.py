"""Grid search: every point of a grid, then the points of finer grids while these have further values."""

from __future__ import annotations

from typing import Any, ClassVar

from nnimgr import search_space as spaces
from nnimgr.algorithm import Past, Rules, Tuner
from nnimgr.tuners.given import Given

__all__ = ["GridSearchTuner"]


class GridSearchTuner(Tuner):
    """Tuner that suggests the points of a grid in order (see ``grid.py``).

    Points that were suggested or imported are skipped. If a parameter is continuous, finer and finer grids
    follow. Otherwise the search ends with NoMoreTrialError when all values were used. ``optimize_mode`` has
    no effect.
    """

    learns: ClassVar[bool] = False

    def __init__(self, optimize_mode: str | None = None) -> None:
        self._given = Given()
        self._rules = Rules()

    def obey(self, rules: Rules) -> None:
        self._rules = rules

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        return Past.SUGGESTIONS | Past.IMPORTS

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        space = spaces.parse(search_space)
        if not space.parameters:
            raise ValueError("GridSearch needs a search space with at least one parameter; this one is empty")
        self._given.change(space, self._rules.feasible)

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        return self._given.next_of_grid()

    def recall(self, parameter_id: int, parameters: Any) -> None:
        """Record a point that was suggested before this process started, so that it is not suggested
        again.
        """
        self._given.remember(parameters)

    def take_back(self, parameter_id: int, parameters: Any) -> None:
        """Forget that a point was suggested, because its trial was never run."""
        self._given.forget(parameters)

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        pass

    def import_data(self, data: list[dict[str, Any]]) -> None:
        for record in data:
            self._given.remember(record["parameter"])
