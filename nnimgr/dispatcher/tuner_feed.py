"""Passes the events of an experiment to a tuner as calls of its methods."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nnimgr.dispatcher.abilities import Abilities, Way
from nnimgr.dispatcher.calls import Calls
from nnimgr.dispatcher.enforcement import Enforcement
from nnimgr.dispatcher.history import History, Reported, Told
from nnimgr.dispatcher.intermediates import Intermediates
from nnimgr.dispatcher.messages import (
    Failed,
    Imported,
    Noted,
    ResultReported,
    RolledBack,
    SetDiscarded,
    SpaceChanged,
    TrialFinished,
)
from nnimgr.dispatcher.multi_phase import FurtherSets
from nnimgr.dispatcher.results import Results

__all__ = ["TunerFeed"]


class TunerFeed:
    """Reports results, ends of trials, imported data and changes of the search space to one tuner.

    ``enforcement`` and ``phases`` receive every event as well. ``open_history`` opens the experiment's past.
    """

    def __init__(
        self,
        tuner: Any,
        abilities: Abilities,
        calls: Calls,
        *,
        results: Results,
        enforcement: Enforcement,
        phases: FurtherSets,
        open_history: Callable[[], History],
    ) -> None:
        self.tuner, self.abilities, self.calls = tuner, abilities, calls
        self.results, self.enforcement, self.phases = results, enforcement, phases
        self.fed_to = 0  # number of the last fact that the tuner knows
        self.first_own = 0  # sets with a parameter id below this are of the replaced tuner
        self._own: dict[int, Any] = {}  # sets that this tuner object has generated, until their trials end
        self.intermediates = Intermediates(
            abilities,
            calls,
            results=results,
            phases=phases,
            hears_of=self._hears_of,
            parameters_of=self._parameters_of,
            open_history=open_history,
        )

    def suggested(self, parameter_id: int, parameters: Any) -> None:
        """Remember a parameter set that the tuner has just generated."""
        if self.abilities.way is Way.IMPORT:
            self._own[parameter_id] = parameters

    def update_space(self, space: dict[str, Any]) -> None:
        """Pass the first search space to the tuner. Raise Doomed if this fails."""
        self.calls.must("update_search_space", lambda: self.tuner.update_search_space(space), hopeless=True)

    def tell(self, event: Told) -> None:
        """Pass an event to the tuner, unless the tuner knows the event already."""
        # Events that were read from the database while the tuner's state was restored may be sent once more.
        if not self.calls.collecting and event.number <= self.fed_to:
            return
        self.fed_to = event.number
        self.enforcement.hear(event)
        match event:
            case Reported():
                self.intermediates.receive(event.metric)
            case RolledBack():
                self.intermediates.roll_back(event)
            case TrialFinished():
                self._finished(event)
                self.intermediates.ended(event.trial_id)
            case ResultReported():
                self._receive(event)
                self.phases.hear(event)
            case SetDiscarded():
                if event.parameter_id in self.phases.of(event.trial_id).sets:
                    self._end(event.parameter_id, event.trial_id, success=False)
                self._take_back(event.parameter_id, event.parameters, trial_id=event.trial_id)
                self.phases.hear(event)
            case Imported(records=records):
                self._imported(json.loads(records))
            case SpaceChanged(search_space=space):
                self.calls.report("update_search_space", lambda: self.tuner.update_search_space(dict(space)))

    def import_data(self, records: list[Any], *, trial_id: str | None = None) -> None:
        """Call the tuner's ``import_data`` with results of trials that the tuner did not suggest."""
        if records:
            self.calls.report("import_data", lambda: self.tuner.import_data(records), trial_id=trial_id)

    def _finished(self, trial: TrialFinished) -> None:
        """For each parameter set of the ended trial, pass the result, if any, and then the end to the
        tuner.
        """
        phases = self.phases.of(trial.trial_id)
        if phases.told:  # a set that has a result keeps its result; the stand-in is only for the other sets
            trial = replace(trial, text=None)
        usable = trial.parameter_id in phases.told or self._receive(trial)
        success = trial.success and usable
        more: dict[str, Any] = _more(trial) if self.abilities.way is Way.RECALL else {}
        if self.abilities.wants_status:
            more["status"] = trial.status
        self._end(trial.parameter_id, trial.trial_id, success=success, **more)
        for parameter_id, parameters in phases.sets.items():
            if parameter_id not in phases.told:
                further = replace(trial, parameter_id=parameter_id, parameters=parameters, text=None)
                self._receive(further)
            self._end(parameter_id, trial.trial_id, success=success, **more)
        if trial.untried:
            for untried, parameters in [(trial.parameter_id, trial.parameters), *phases.sets.items()]:
                if untried is not None and untried not in phases.told:
                    self._take_back(untried, parameters, trial_id=trial.trial_id)
        self.phases.hear(trial)

    def _hears_of(self, parameter_id: int | None) -> bool:
        """Return whether this tuner gets calls about the parameter set with this id.

        ``parameter_id`` is None for the set of a customised trial.
        """
        if parameter_id is None:
            # Read the attribute each time, because it may change at any time.
            return bool(getattr(self.tuner, "_accept_customized", False))
        if self.abilities.way is Way.IMPORT:
            return parameter_id in self._own
        return parameter_id >= self.first_own

    def _parameters_of(self, parameter_id: int | None, text: str) -> Any:
        """Return the parameter set with this id, as the tuner gets it with a result. ``text``: its JSON
        text.
        """
        own = self._own.get(-1 if parameter_id is None else parameter_id)
        return json.loads(text) if own is None else own

    def _end(self, parameter_id: int | None, trial_id: str, *, success: bool, **more: Any) -> None:
        """Call the tuner's ``trial_end`` for a parameter set. ``more``: arguments that only some tuners
        take.
        """
        if self._hears_of(parameter_id):
            self._own.pop(-1 if parameter_id is None else parameter_id, None)
            self.calls.report(
                "trial_end",
                lambda: self.tuner.trial_end(parameter_id, success, trial_job_id=trial_id, **more),
                trial_id=trial_id,
            )

    def _take_back(self, parameter_id: int, parameters: str, *, trial_id: str) -> None:
        take_back = self.abilities.take_back
        if take_back is not None and parameter_id >= self.first_own:
            self.calls.report(
                "take_back", lambda: take_back(parameter_id, json.loads(parameters)), trial_id=trial_id
            )

    def _receive(self, trial: TrialFinished | ResultReported) -> bool:
        """Pass the trial's result, or the result that stands in for it, to the tuner.

        Return False if the trial's own result is unusable.
        """
        parameter_id, trial_id = trial.parameter_id, trial.trial_id
        if not self._hears_of(parameter_id):
            if parameter_id is not None:
                self.import_data(self.results.records_of(trial), trial_id=trial_id)
            return True
        text, value, fault = self.results.of(trial)
        if text is not None:
            parameters = self._parameters_of(parameter_id, trial.parameters)
            self.calls.report(
                "receive_trial_result",
                lambda: self.tuner.receive_trial_result(
                    parameter_id, parameters, value, customized=parameter_id is None, trial_job_id=trial_id
                ),
                trial_id=trial_id,
            )
        if fault is not None and not self.calls.collecting:
            note = f"its final result {fault}: the tuner treats the trial as failed"
            note += f" and gets the result {text} instead" if text is not None else ""
            self.calls.channel.send(Noted(trial_id=trial_id, note=note))
        return fault is None

    def _imported(self, records: list[Any]) -> None:
        good, faults = self.results.usable(records)
        if faults and not self.calls.collecting:
            number, fault = next(iter(faults.items()))
            sentence = (
                f"the tuner does not get {len(faults)} of {len(records)} imported results; "
                f"for example, number {number} {fault}"
            )
            self.calls.channel.send(Failed(call="import_data", sentence=sentence, traceback=""))
        self.import_data(good)


def _more(trial: TrialFinished) -> dict[str, bool]:
    """Return the additional arguments of ``trial_end`` for tuners with ``recall``."""
    return {name: True for name in ("untried", "again") if getattr(trial, name)}
