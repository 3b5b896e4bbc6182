"""Base of the built-in tuners that learn.

It stores results and unfinished trials, and follows the experiment's rules. The rules are the constraints of
the search space, and whether a parameter set may be repeated.
"""

from __future__ import annotations

from random import Random
from typing import Any

from nnimgr import search_space as spaces
from nnimgr.algorithm import OptimizeMode, Past, Rules, Tuner, extract_scalar_reward
from nnimgr.tuners.given import Given, can_repeat

__all__ = ["LearningTuner"]

_DRAWS = 100  # most draws with ``suggest`` before parameter sets are drawn from the whole space
_BLIND_DRAWS = (
    100_000  # most draws from the whole space; many, because perhaps only one set in a thousand is allowed
)


class LearningTuner(Tuner):
    """Base of the built-in tuners.

    A subclass overrides ``suggest`` and, if it has a model, the methods from ``space_changed`` to
    ``learned``. A suggestion depends only on the seed, the parameter id and the earlier calls. Failed trials
    are not learned from. Results that were imported, or belong to parameter sets added by users, count like
    all others. No set is suggested twice if the experiment forbids it, or if repetitions are likely
    (``given.can_repeat``) and the experiment does not allow them. If ``seed`` is None, each process has a
    random seed.
    """

    _accept_customized = True

    def __init__(self, optimize_mode: str = "minimize", seed: int | None = None) -> None:
        self._sign = -1.0 if OptimizeMode(optimize_mode) is OptimizeMode.Maximize else 1.0
        self._seed = Random().getrandbits(64) if seed is None else seed
        self.space = spaces.Space(())
        self.results: list[tuple[Any, float]] = []  # parameters and loss, in the order of arrival
        self.open: dict[int, Any] = {}  # suggested sets whose trials have not ended
        self._rules = Rules()
        self._repeats = False
        self._given = Given()

    # ---- for subclasses -----------------------------------------------------------------------------------

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        """Return a parameter set of the search space ``space``.

        If the set does not meet the constraints, this method is called again. Draw random numbers only from
        ``rng``, which is the generator for this parameter id.
        """
        raise NotImplementedError

    def space_changed(self) -> None:
        """Called after the search space ``space`` has changed."""

    def opened(self, parameter_id: int, parameters: Any) -> None:
        """Called when a trial was created for a parameter set."""

    def closed(self, parameter_id: int, parameters: Any) -> None:
        """Called when a trial has ended or has got its result.

        If it has a result, ``learned`` is called next.
        """

    def learned(self, parameters: Any, loss: float) -> None:
        """Learn the result of a parameter set; lower losses are better.

        ``parameters`` may be outside of the search space, or not even a mapping.
        """

    def allows(self, parameters: Any) -> bool:
        """Return whether this parameter set meets the constraints and is not a forbidden repetition.

        ``suggest`` may use this method to skip sets.
        """
        return self._rules.feasible(parameters) and not (self._repeats and self._given.knows(parameters))

    # ---- methods of the base class Tuner ------------------------------------------------------------------

    def obey(self, rules: Rules) -> None:
        self._rules = rules

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        repeats = any(self._must_differ(spaces.parse(space)) for space in search_spaces)
        return Past.ALL if repeats else Past.ALL & ~Past.SUGGESTIONS

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self.space = spaces.parse(search_space)
        self._repeats = self._must_differ(self.space)
        self._given.change(self.space, self._rules.feasible)
        self.space_changed()

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        parameters = self._allowed(Random(f"{self._seed}/{parameter_id}"), parameter_id)
        if parameters is None or (self._repeats and not self._given.add(parameters)):
            parameters = self._given.next_of_grid()
        self._opened(parameter_id, parameters)
        return parameters

    def recall(self, parameter_id: int, parameters: Any) -> None:
        """Record a parameter set that was suggested before this process started."""
        self._remember(parameters)
        self._opened(parameter_id, parameters)

    def take_back(self, parameter_id: int, parameters: Any) -> None:
        """Forget that a parameter set was suggested, because its trial was never run."""
        self._given.forget(parameters)

    def receive_trial_result(
        self, parameter_id: int | None, parameters: Any, value: Any, **kwargs: Any
    ) -> None:
        if parameter_id is None:
            self._remember(parameters)
        else:
            self._closed(parameter_id)
        self._learn(parameters, value)

    def trial_end(self, parameter_id: int | None, success: bool, **kwargs: Any) -> None:
        if parameter_id is not None:
            self._closed(parameter_id)

    def import_data(self, data: list[dict[str, Any]]) -> None:
        for record in data:
            self._remember(record["parameter"])
            self._learn(record["parameter"], record["value"])

    # ---- helpers ------------------------------------------------------------------------------------------

    def _must_differ(self, space: spaces.Space) -> bool:
        """Return True if the tuner must suggest no parameter set twice, and so remembers all of them."""
        return self._rules.never_repeat or (can_repeat(space) and not self._rules.may_repeat)

    def _allowed(self, rng: Random, parameter_id: int) -> dict[str, Any] | None:
        """Return a parameter set that meets the constraints, or None if none was found and the grid must be
        searched.

        Raise ValueError if none was found and this tuner has no grid to search.
        """
        feasible = self._rules.feasible
        for _ in range(_DRAWS):
            parameters = self.suggest(rng, parameter_id)
            if feasible(parameters):
                return parameters
        for _ in range(_BLIND_DRAWS):
            parameters = spaces.sample(self.space, rng)
            if feasible(parameters):
                return parameters
        if self._repeats:
            return None
        raise ValueError(f"none of {_BLIND_DRAWS} random parameter sets meets the search space's constraints")

    def _remember(self, parameters: Any) -> None:
        if self._repeats:
            self._given.remember(parameters)

    def _opened(self, parameter_id: int, parameters: Any) -> None:
        self.open[parameter_id] = parameters
        self.opened(parameter_id, parameters)

    def _closed(self, parameter_id: int) -> None:
        if parameter_id in self.open:
            self.closed(parameter_id, self.open.pop(parameter_id))

    def _learn(self, parameters: Any, value: Any) -> None:
        loss = self._sign * float(extract_scalar_reward(value))
        self.results.append((parameters, loss))
        self.learned(parameters, loss)
