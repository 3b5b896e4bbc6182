"""What tuners share that run many configurations with a small budget and the best again with larger ones.

A *configuration* is a parameter set without its budget. What runs is a parameter set with both; a
configuration that is promoted runs again, as another trial.
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
    """What is to run next: a configuration (None: a new one) with this budget. ``place``: the schedule's."""

    budget: int
    configuration: Configuration | None = None
    place: Any = None


class Schedule(ABC):
    """Which configurations run with which budgets: a function of what it is told, in this order."""

    @abstractmethod
    def next(self) -> Slot | None:
        """What is to run next; None while that depends on what runs. Changes nothing."""

    @abstractmethod
    def give(self, parameter_id: int, slot: Slot, configuration: Configuration) -> None:
        """The slot that ``next`` has returned is taken."""

    @abstractmethod
    def end(self, parameter_id: int, loss: float | None) -> None:
        """A trial has a result, by which lower is better, or None: it has ended without one.

        A result may follow an end, since what has failed may be run again by hand; an end after a result
        says nothing new.
        """

    @abstractmethod
    def take_back(self, parameter_id: int) -> bool:
        """The slot is free again; whether its configuration was a new one."""

    @abstractmethod
    def no_more_new(self) -> None:
        """There are no further configurations, until one is taken back or the search space changes."""

    @abstractmethod
    def restart(self) -> None:
        """Another search space: what runs does not concern it any more."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether anything runs on whose end something may follow."""

    @abstractmethod
    def why_waiting(self) -> str:
        """What it waits for, when ``next`` is None."""


class BudgetTuner(LearningTuner):
    """Base of the tuners with a schedule: new configurations come from ``suggest``, here at random."""

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

    # ---- the contract -------------------------------------------------------------------------------------

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
            # There was no new configuration to be had then.
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

    # ---- beneath ------------------------------------------------------------------------------------------

    def _next(self, parameter_id: int) -> dict[str, Any] | None:
        """A parameter set; None: not yet. Raises NoMoreTrialError when there is none to be waited for."""
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
    """The configuration and the budget, None if there is none; anything may have been run by hand."""
    if not isinstance(parameters, Mapping) or BUDGET not in parameters:
        return parameters, None
    return {name: value for name, value in parameters.items() if name != BUDGET}, parameters[BUDGET]


def _fits(slot: Slot | None, configuration: Any, budget: Any) -> bool:
    if slot is None or slot.budget != budget:
        return False
    return slot.configuration is None or slot.configuration == configuration
