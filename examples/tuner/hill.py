"""Custom tuner in one file: hill climbing from the best result so far.

Its tests are ``nnimgr.testing.TunerConformance`` (see ``tests/test_example_tuner.py``).
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from nnimgr.algorithm import OptimizeMode, Tuner, extract_scalar_reward
from nnimgr.search_space import parse, sample


class HillTuner(Tuner):
    """Tuner that draws a set at random, or copies the best set so far and draws one of its parameters again.

    Each set depends only on the seed, its id and the earlier results. So ``recall`` has nothing to do: after
    a restart the tuner gets the results again.
    """

    _accept_customized = True  # also learn from sets that users have added

    def __init__(self, optimize_mode: str = "maximize", explore: float = 0.3, seed: int = 0) -> None:
        self._sign = 1 if OptimizeMode(optimize_mode) is OptimizeMode.Maximize else -1
        self._explore, self._seed = explore, seed
        self._best: tuple[float, Any] | None = None

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self._space = parse(search_space)

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        rng = Random(f"{self._seed}/{parameter_id}")
        drawn = sample(self._space, rng)
        if self._best is None or not drawn or rng.random() < self._explore:
            return drawn
        changed = rng.choice(list(drawn))
        best = self._best[1]
        # the best set belongs to another search space
        if not isinstance(best, dict) or best.keys() != drawn.keys():
            return drawn
        return {name: drawn[name] if name == changed else best[name] for name in drawn}

    def receive_trial_result(
        self, parameter_id: int | None, parameters: Any, value: Any, **kwargs: Any
    ) -> None:
        self._learn(parameters, value)

    def import_data(self, data: list[dict[str, Any]]) -> None:
        for record in data:
            self._learn(record["parameter"], record["value"])

    def recall(self, parameter_id: int, parameters: Any) -> None:
        """Do nothing: sets of an earlier process do not affect this tuner."""

    def _learn(self, parameters: Any, value: Any) -> None:
        score = self._sign * extract_scalar_reward(value)
        if self._best is None or score > self._best[0]:
            self._best = score, json.loads(json.dumps(parameters))
