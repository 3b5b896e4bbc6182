"""Base of tuners that run many configurations with a small budget, and the best ones again with larger
budgets.

A *configuration* is a parameter set without its budget. A trial runs a configuration with one budget. When a
configuration is promoted, it runs again as another trial with a larger budget.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from nnimgr import search_space as spaces
from nnimgr.algorithm import NoMoreTrialError, Past
from nnimgr.tuners.learning import LearningTuner

__all__ = ["BUDGET", "BudgetTuner", "Configuration", "Schedule", "Slot", "split"]

BUDGET = "TRIAL_BUDGET"  # NNI's name

Configuration = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Next trial to run: a configuration (None: one that has yet to be drawn) and its budget.

    ``place`` is data that only the schedule uses.
    """

    budget: int
    configuration: Configuration | None = None
    place: Any = None


class Schedule(ABC):
    """Base of the schedules, which decide which configurations run with which budgets.

    A schedule's decisions depend only on the calls of its methods and their order.
    """

    @abstractmethod
    def next(self) -> Slot | None:
        """Return the next trial to run, or None if this depends on results of running trials.

        This changes no state.
        """

    @abstractmethod
    def give(self, parameter_id: int, slot: Slot, configuration: Configuration) -> None:
        """Record that the trial which ``next`` has returned was suggested, with the id ``parameter_id``."""

    @abstractmethod
    def end(self, parameter_id: int, loss: float | None) -> None:
        """Record the result of a trial (lower losses are better). None: the trial has ended without a
        result.

        A result may follow later, because users may run a failed trial again. If a trial has a result, ignore
        a later None.
        """

    @abstractmethod
    def take_back(self, parameter_id: int) -> bool:
        """Record that a suggested trial was never run, so that it is suggested again.

        Return True if the trial's configuration was a new one, and False if it was promoted.
        """

    @abstractmethod
    def no_more_new(self) -> None:
        """Suggest no new configurations until a trial is taken back or the search space changes."""

    @abstractmethod
    def restart(self) -> None:
        """Begin again for another search space. Results of trials that still run are ignored."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True if the end of a running trial may make another trial possible."""

    @abstractmethod
    def why_waiting(self) -> str:
        """Return the reason why ``next`` returns None, as part of a sentence."""


class BudgetTuner(LearningTuner):
    """Base of the tuners with a schedule of budgets.

    New configurations come from ``suggest``, which by default draws at random.
    """

    waits: ClassVar[bool] = True

    def __init__(self, schedule: Schedule, optimize_mode: str, seed: int | None) -> None:
        super().__init__(optimize_mode, seed)
        self._schedule = schedule

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        return spaces.sample(self.space, rng)

    def space_changed(self) -> None:
        self._schedule.restart()

    def why_waiting(self) -> str:
        return self._schedule.why_waiting()

    # ---- methods of the base class Tuner ------------------------------------------------------------------

    def needs(self, search_spaces: list[dict[str, Any]]) -> Past:
        return Past.ALL

    def generate_multiple_parameters(self, parameter_id_list: list[int], **kwargs: Any) -> list[Any]:
        found: list[Any] = []
        for parameter_id in parameter_id_list:
            try:
                parameters = self._next(parameter_id)
            except NoMoreTrialError:
                if not found:
                    raise
                break
            if parameters is None:
                break
            found.append(parameters)
        return found

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        parameters = self._next(parameter_id)
        if parameters is None:
            raise NoMoreTrialError(self.why_waiting())
        return parameters

    def recall(self, parameter_id: int, parameters: Any) -> None:
        configuration, budget = split(parameters)
        slot = self._schedule.next()
        if not _fits(slot, configuration, budget):
            # The schedule would now begin another trial. So when this trial was suggested, the schedule
            # could not begin new configurations.
            self._schedule.no_more_new()
            slot = self._schedule.next()
        if slot is None or slot.configuration is None:
            self._remember(configuration)
        self._opened(parameter_id, configuration)
        if slot is not None and _fits(slot, configuration, budget):
            self._schedule.give(parameter_id, slot, configuration)

    def take_back(self, parameter_id: int, parameters: Any) -> None:
        if self._schedule.take_back(parameter_id):
            super().take_back(parameter_id, split(parameters)[0])

    def receive_trial_result(
        self, parameter_id: int | None, parameters: Any, value: Any, **kwargs: Any
    ) -> None:
        super().receive_trial_result(parameter_id, parameters, value)
        if parameter_id is not None:
            self._schedule.end(parameter_id, self.results[-1][1])

    def trial_end(self, parameter_id: int | None, success: bool, **kwargs: Any) -> None:
        super().trial_end(parameter_id, success)
        if parameter_id is not None and not kwargs.get("untried") and not kwargs.get("again"):
            self._schedule.end(parameter_id, None)

    # ---- helpers ------------------------------------------------------------------------------------------

    def _next(self, parameter_id: int) -> dict[str, Any] | None:
        """Return the next parameter set with its budget, or None if running trials must end first.

        Raise NoMoreTrialError if no parameter set can follow.
        """
        while (slot := self._schedule.next()) is not None:
            if slot.configuration is not None:
                configuration = slot.configuration
                self._opened(parameter_id, configuration)
            else:
                try:
                    configuration = super().generate_parameters(parameter_id)
                except NoMoreTrialError:
                    self._schedule.no_more_new()
                    continue
            self._schedule.give(parameter_id, slot, configuration)
            return {**configuration, BUDGET: slot.budget}
        if self._schedule.busy:
            return None
        raise NoMoreTrialError("every parameter set of the search space was suggested")

    def _remember(self, parameters: Any) -> None:
        super()._remember(split(parameters)[0])


def split(parameters: Any) -> tuple[Any, Any]:
    """Split a parameter set into the configuration and the budget.

    The budget is None if the set has none or is not a mapping, because users may add trials with any
    parameters.
    """
    if not isinstance(parameters, Mapping) or BUDGET not in parameters:
        return parameters, None
    return {name: value for name, value in parameters.items() if name != BUDGET}, parameters[BUDGET]


def _fits(slot: Slot | None, configuration: Any, budget: Any) -> bool:
    if slot is None or slot.budget != budget:
        return False
    return slot.configuration is None or slot.configuration == configuration
