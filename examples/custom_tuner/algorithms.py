"""A tuner and an assessor as one writes them for NNI."""

from __future__ import annotations

import random

from nni.assessor import Assessor, AssessResult
from nni.tuner import Tuner
from nni.utils import OptimizeMode, extract_scalar_reward


class HillClimber(Tuner):
    """Takes a random step from the best point so far; the first points are drawn anywhere."""

    def __init__(self, optimize_mode="maximize", step=0.1, seed=None):
        self._sign = 1 if OptimizeMode(optimize_mode) is OptimizeMode.Maximize else -1
        self._step = step
        self._random = random.Random(seed)
        self._space = {}
        self._best = None  # (reward, parameters)

    def update_search_space(self, search_space):
        self._space = {name: spec["_value"] for name, spec in search_space.items()}

    def generate_parameters(self, parameter_id, **kwargs):
        return {name: self._near(name, low, high) for name, (low, high) in self._space.items()}

    def _near(self, name, low, high):
        if self._best is None:
            return self._random.uniform(low, high)
        x = self._random.gauss(self._best[1][name], self._step * (high - low))
        return min(max(x, low), high)

    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        self._learn(parameters, value)

    def import_data(self, data):
        """Also how the tuner learns of the past when its process was started anew."""
        for record in data:
            self._learn(record["parameter"], record["value"])

    def _learn(self, parameters, value):
        reward = self._sign * extract_scalar_reward(value)
        if self._best is None or reward > self._best[0]:
            self._best = (reward, parameters)


class Threshold(Assessor):
    """Stops a trial whose last result is above a limit."""

    def __init__(self, worst):
        self._worst = worst

    def assess_trial(self, trial_job_id, trial_history):
        return AssessResult.Bad if trial_history[-1] > self._worst else AssessResult.Good
