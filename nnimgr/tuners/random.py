"""Random search: every parameter set is drawn independently of all results."""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar

from nnimgr import search_space as spaces
from nnimgr.algorithm import Past
from nnimgr.tuners.learning import LearningTuner

__all__ = ["RandomTuner"]


class RandomTuner(LearningTuner):
    """Tuner that draws each parameter set at random. The set depends only on the seed and the
    parameter id.

    If repetitions are likely or forbidden, a set that was suggested before is replaced by the next unused
    point of a grid. NoMoreTrialError is raised if the grid has no such point. ``optimize_mode`` has no
    effect.
    """

    learns: ClassVar[bool] = False
    _accept_customized = False

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        repeats = any(self._must_differ(spaces.parse(space)) for space in search_spaces)
        return Past.SUGGESTIONS if repeats else Past.NOTHING

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        return spaces.sample(self.space, rng)

    def recall(self, parameter_id: int, parameters: Any) -> None:
        """Record a parameter set that was suggested before this process started, so that it is not suggested
        again.
        """
        self._remember(parameters)

    def receive_trial_result(
        self, parameter_id: int | None, parameters: Any, value: Any, **kwargs: Any
    ) -> None:
        pass

    def import_data(self, data: list[dict[str, Any]]) -> None:
        pass
