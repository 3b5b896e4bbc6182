"""Passes intermediate results of trials to a tuner that has the method ``receive_intermediate_result``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from nnimgr.dispatcher.abilities import Abilities
from nnimgr.dispatcher.calls import Calls
from nnimgr.dispatcher.history import History, Metric
from nnimgr.dispatcher.messages import Failed, Noted, RolledBack
from nnimgr.dispatcher.multi_phase import FurtherSets
from nnimgr.dispatcher.results import Results

__all__ = ["Intermediates"]


@dataclass(slots=True)
class _Trial:
    """Running trial with its parameter set. ``parameters``: JSON text; None if there is no such trial."""

    parameter_id: int | None
    parameters: str | None
    last: tuple[int, int] = (0, -1)  # attempt and position of the last metric
    fault_told: bool = False
    raised: str | None = None  # last error that the tuner raised for this trial


class Intermediates:
    """Intermediate results of running trials, which are passed to one tuner in the order of the log.

    ``hears_of`` returns whether the tuner gets calls about a parameter set, ``parameters_of`` the set in the
    form that the tuner gets. ``open_history`` opens the experiment's past.
    """

    def __init__(
        self,
        abilities: Abilities,
        calls: Calls,
        *,
        results: Results,
        phases: FurtherSets,
        hears_of: Callable[[int | None], bool],
        parameters_of: Callable[[int | None, str], Any],
        open_history: Callable[[], History],
    ) -> None:
        self._receive = abilities.receive_intermediate_result
        self._rolled_back = abilities.intermediate_rolled_back
        self._calls, self._results, self._phases = calls, results, phases
        self._hears_of, self._parameters_of, self._open_history = hears_of, parameters_of, open_history
        self._trials: dict[str, _Trial] = {}
        self._history: History | None = None  # open while the past is replayed

    @contextmanager
    def reading(self, history: History) -> Iterator[None]:
        """Read the parameter sets of trials from ``history`` inside the ``with`` block."""
        self._history = history
        try:
            yield
        finally:
            self._history = None

    def last_metric(self, trial_id: str) -> tuple[int, int]:
        """Return the attempt and the position of the trial's last metric; (0, -1) without a metric."""
        trial = self._trials.get(trial_id)
        return (0, -1) if trial is None else trial.last

    def receive(self, metric: Metric) -> None:
        """Pass an intermediate result to the tuner, if it is usable and of a trial whose results the tuner
        gets.
        """
        if (receive := self._receive) is None:
            return
        trial_id, attempt, position, sequence, text = metric
        trial = self._trial(trial_id)
        trial.last = attempt, position
        parameter_id, parameters = self._set_of(trial, metric)
        if parameters is None or not self._hears_of(parameter_id):
            return
        result = self._results.intermediate(text)
        if result.fault is not None:
            self._tell_fault(trial, trial_id, f"its intermediate result {sequence + 1} {result.fault}")
            return
        given = self._parameters_of(parameter_id, parameters)
        self._call(
            trial,
            "receive_intermediate_result",
            lambda: receive(parameter_id, given, result.value, sequence=sequence, trial_job_id=trial_id),
            trial_id,
        )

    def roll_back(self, message: RolledBack) -> None:
        """Report to the tuner how many intermediate results of a trial still count."""
        if self._receive is None or (rolled_back := self._rolled_back) is None:
            return
        trial_id, reports = message.trial_id, message.reports
        trial = self._trial(trial_id)
        if trial.parameters is not None and self._hears_of(trial.parameter_id):
            self._call(
                trial,
                "intermediate_rolled_back",
                lambda: rolled_back(trial.parameter_id, trial_id, reports),
                trial_id,
            )

    def ended(self, trial_id: str) -> None:
        """Forget a trial that has ended."""
        self._trials.pop(trial_id, None)

    def _trial(self, trial_id: str) -> _Trial:
        found = self._trials.get(trial_id)
        if found is None:
            parameter_id, parameters = self._read(lambda history: history.set_of(trial_id)) or (None, None)
            found = self._trials[trial_id] = _Trial(parameter_id, parameters)
        return found

    def _set_of(self, trial: _Trial, metric: Metric) -> tuple[int | None, str | None]:
        """Return the id and the JSON text of the parameter set to which a metric belongs."""
        further = self._phases.of(metric[0]).sets
        if further:
            named = self._read(lambda history: history.set_named_by(metric))
            for parameter_id, parameters in further.items():
                if named == str(parameter_id):
                    return parameter_id, parameters
        return trial.parameter_id, trial.parameters

    def _read(self, query: Callable[[History], Any]) -> Any:
        if self._history is not None:
            return query(self._history)
        with closing(self._open_history()) as history:
            return query(history)

    def _call(self, trial: _Trial, call: str, run: Callable[[], Any], trial_id: str) -> None:
        """Call a method of the tuner. Report the same error of a trial only once, and not at every metric."""
        result = self._calls.attempt(call, run, trial_id=trial_id)
        if isinstance(result, Failed) and result.sentence != trial.raised:
            trial.raised = result.sentence
            self._calls.complain(result)

    def _tell_fault(self, trial: _Trial, trial_id: str, fault: str) -> None:
        if not trial.fault_told and not self._calls.collecting:
            trial.fault_told = True
            self._calls.channel.send(
                Noted(trial_id=trial_id, note=f"{fault}: the tuner does not get results like this")
            )
