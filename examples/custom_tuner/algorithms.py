"""Custom tuner and assessor in the form that NNI expects."""

from __future__ import annotations

import random
from typing import Any

from nni.assessor import Assessor, AssessResult
from nni.tuner import Tuner
from nni.utils import OptimizeMode, extract_scalar_reward


class HillClimber(Tuner):
    """Tuner that takes a random step from the best point so far. It draws the first points at random."""

    def __init__(self, optimize_mode: str = "maximize", step: float = 0.1, seed: int | None = None) -> None:
        self._sign = 1 if OptimizeMode(optimize_mode) is OptimizeMode.Maximize else -1
        self._step = step
        self._random = random.Random(seed)
        self._space: dict[str, list[float]] = {}
        self._best: tuple[float, dict[str, float]] | None = None  # best reward so far, and its parameters

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self._space = {name: spec["_value"] for name, spec in search_space.items()}

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, float]:
        return {name: self._near(name, low, high) for name, (low, high) in self._space.items()}

    def _near(self, name: str, low: float, high: float) -> float:
        if self._best is None:
            return self._random.uniform(low, high)
        x = self._random.gauss(self._best[1][name], self._step * (high - low))
        return min(max(x, low), high)

    def receive_trial_result(
        self, parameter_id: int | None, parameters: dict[str, float], value: Any, **kwargs: Any
    ) -> None:
        self._learn(parameters, value)

    def import_data(self, data: list[dict[str, Any]]) -> None:
        """Use earlier results: imported data, or all results after a restart of the tuner's process."""
        for record in data:
            self._learn(record["parameter"], record["value"])

    def _learn(self, parameters: dict[str, float], value: Any) -> None:
        reward = self._sign * extract_scalar_reward(value)
        if self._best is None or reward > self._best[0]:
            self._best = (reward, parameters)


class Threshold(Assessor):
    """Assessor that stops a trial if its last result is above a limit."""

    def __init__(self, worst: float) -> None:
        self._worst = worst

    def assess_trial(self, trial_job_id: str, trial_history: list[float]) -> AssessResult:
        return AssessResult.Bad if trial_history[-1] > self._worst else AssessResult.Good
