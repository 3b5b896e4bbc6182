"""Keeps what a scheduler knows of an experiment: its live trials, their results and checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.history import Reported
from nnimgr.dispatcher.results import fault_of_result
from nnimgr.objectives import DEFAULT, with_default
from nnimgr.scheduler import Checkpoint, Continue, Decision, Experiment, Exploit, Pause, Resize, Trial

if TYPE_CHECKING:
    from nnimgr.constraints import Constraints

__all__ = ["Call", "Event", "Members"]

Event = (
    Reported
    | m.TrialCreated
    | m.CheckpointSaved
    | m.RolledBack
    | m.TrialPaused
    | m.TrialContinued
    | m.LegBegan
    | m.SlotLent
    | m.TrialFinished
    | m.DecisionRefused
    | m.NoMoreTrials
    | m.TrialsAgain
    | m.SpaceChanged
)
Call = tuple[Any, ...]  # name of a scheduler's method, and the arguments
# Function that is called with a trial's id, the number of its result, and why the result is not usable.
OnFault = Callable[[str, int, str], None]

_NONE: list[Call] = []


class Members:
    """Live trials of an experiment, as one scheduler sees them. ``hear`` updates them with each event.

    ``on_fault`` is called for the first result of a trial that has no finite number.
    """

    def __init__(self, start: m.Start, *, seed: int, on_fault: OnFault) -> None:
        self._objectives, self._on_fault = start.objectives, on_fault
        self._constraints: Constraints | None = None
        self.experiment = Experiment(
            seed=seed,
            search_space=start.search_space,
            objectives=start.objectives,
            goal=start.goal,
            feasible=self._feasible,
            resources=start.resources,
        )
        self.held: dict[str, None] = {}  # trials that the scheduler has paused, without a decision since
        self.pauses: dict[str, Pause] = {}  # trial -> the scheduler's latest decision to pause it
        self._causes: dict[str, int] = {}  # trial -> cause of ``Trial.decided``
        # trial -> results and numbers of the donor with which its next leg begins
        self._inherited: dict[str, tuple[list[Any], list[float | None]]] = {}
        self._faulty: set[str] = set()  # trials with a result that has no finite number
        self.constrain(start.constraints)

    @property
    def trials(self) -> dict[str, Trial]:
        return self.experiment.trials

    @property
    def all_held(self) -> bool:
        """True: no more trials come, and the scheduler has paused all that have not ended."""
        return bool(self.held) and not self.experiment.more_trials and len(self.held) == len(self.trials)

    def constrain(self, constraints: tuple[str, ...]) -> None:
        """Replace the constraints on parameter sets. Raise ConstraintError."""
        self._constraints = None
        if constraints:
            # Imported here, because it imports ast, which would slow the start without constraints.
            from nnimgr.constraints import Constraints

            self._constraints = Constraints(constraints)

    def complaint(self, parameters: Any) -> str | None:
        """Return why a parameter set does not meet the constraints; None if it meets them."""
        return None if self._constraints is None else self._constraints.complaint(parameters)

    def _feasible(self, parameters: Any) -> bool:
        return self._constraints is None or self._constraints.feasible(parameters)

    # ---- decisions ----------------------------------------------------------------------------------------

    def decide(self, decision: Decision) -> None:
        """Record a decision of the scheduler about the present event."""
        trial = decision.trial
        trial.decided = decision
        self._causes[trial.id] = self.experiment.number
        if isinstance(decision, Pause):
            self.pauses[trial.id] = decision
        elif isinstance(decision, Exploit):
            count = 0 if decision.checkpoint is None else decision.checkpoint.reports
            donor = decision.donor
            self._inherited[trial.id] = donor.results[:count], donor.numbers[:count]
        self._hold(trial)

    def awaits(self, trial_id: str, cause: int) -> bool:
        """Return whether the decision that fact ``cause`` has caused was neither carried out nor refused."""
        trial = self.trials.get(trial_id)
        return trial is not None and trial.decided is not None and self._causes[trial_id] == cause

    def _hold(self, trial: Trial) -> None:
        if trial.held:
            self.held[trial.id] = None
        else:
            self.held.pop(trial.id, None)

    def _undecide(self, trial: Trial) -> Decision | None:
        """Remove the decision about a trial that was not carried out, and return it."""
        decision, trial.decided = trial.decided, None
        self._hold(trial)
        return decision

    # ---- events -------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> list[Call]:
        """Update the trials with an event, and return the calls of the scheduler's methods that follow."""
        self.experiment.number = event.number
        if isinstance(event, Reported):
            return self._reported(event)
        match event:
            case m.TrialCreated():
                return self._created(event)
            case m.NoMoreTrials() | m.TrialsAgain():
                return self._drained(isinstance(event, m.NoMoreTrials))
            case m.SpaceChanged():
                self.experiment.search_space = event.search_space
                if event.constraints is not None:
                    self.constrain(event.constraints)
                return [("search_space_changed",)]
        trial = self.trials.get(event.trial_id)
        return _NONE if trial is None else self._of_trial(event, trial)

    def _drained(self, drained: bool) -> list[Call]:
        """Record whether the experiment creates no more trials. The message may repeat what is known."""
        if self.experiment.more_trials is not drained:
            return _NONE
        self.experiment.more_trials = not drained
        return [("no_more_trials",) if drained else ("trials_again",)]

    def _created(self, event: m.TrialCreated) -> list[Call]:
        trial = Trial(event.trial_id, json.loads(event.parameters), resources=self.experiment.resources)
        trial.results += repeat(None, event.reports)
        trial.numbers += repeat(None, event.reports)
        self.trials[trial.id] = trial
        return [("trial_created", trial)]

    def _reported(self, event: Reported) -> list[Call]:
        trial_id, _, _, sequence, text = event.metric
        trial = self.trials.get(trial_id)
        if trial is None:
            return _NONE
        value = _read(text)
        trial.results.append(value)
        trial.numbers.append(self._number(trial_id, sequence, value))
        trial.silent = False
        return [("result_reported", trial)]

    def _number(self, trial_id: str, sequence: int, value: Any) -> float | None:
        """Return the number of the main objective in a result; None if it has no finite number."""
        if type(value) is float and math.isfinite(value):
            return value
        given = with_default(value, self._objectives)
        fault = fault_of_result(given, numeric=True)
        if fault is None:
            return float(given[DEFAULT] if isinstance(given, Mapping) else given)
        if trial_id not in self._faulty:
            self._faulty.add(trial_id)
            self._on_fault(trial_id, sequence, fault)
        return None

    def _of_trial(self, event: Any, trial: Trial) -> list[Call]:
        match event:
            case m.CheckpointSaved():
                saved = Checkpoint(event.attempt, event.checkpoint, event.reports, event.step)
                trial.checkpoints.append(saved)
                trial.silent = False
                return [("checkpoint_saved", trial)]
            case m.TrialPaused():
                trial.paused, trial.silent = event.by, False
                if isinstance(trial.decided, Pause):
                    trial.decided = None
                self._hold(trial)
                return [("trial_paused", trial)]
            case m.TrialContinued():
                trial.paused = None
                if isinstance(trial.decided, Pause | Continue):
                    trial.decided = None
                self._hold(trial)
                return [("trial_continued", trial)]
            case m.RolledBack():
                return self._rolled_back(event, trial)
            case m.LegBegan():
                return self._leg_began(event, trial)
            case m.SlotLent():
                trial.silent = True
                return [("trial_silent", trial)]
            case m.TrialFinished():
                return self._finished(event, trial)
            case m.DecisionRefused() if self.awaits(trial.id, event.cause):
                return [("decision_refused", self._undecide(trial), event.reason)]
        return _NONE

    def _rolled_back(self, event: m.RolledBack, trial: Trial) -> list[Call]:
        _cut(trial, event.reports)
        trial.checkpoints = [
            each for each in trial.checkpoints if event.position and each.reports <= event.reports
        ]
        trial.paused, trial.silent = None, False
        calls: list[Call] = [("trial_rolled_back", trial), *self._resized(event, trial)]
        if isinstance(trial.decided, Continue | Resize):
            trial.decided = None
        elif isinstance(trial.decided, Pause | Exploit):
            reason = "the trial had to continue before the decision was carried out"
            calls.append(("decision_refused", self._undecide(trial), reason))
        self._hold(trial)
        return calls

    def _leg_began(self, event: m.LegBegan, trial: Trial) -> list[Call]:
        if event.leg == trial.leg:  # another attempt begins the same leg again
            _cut(trial, event.reports)
        else:
            results, numbers = self._inherited.pop(trial.id, ([], []))
            trial.results, trial.numbers = list(results), list(numbers)
            _cut(trial, event.reports)
            missing = event.reports - len(trial.results)
            trial.results += repeat(None, missing)
            trial.numbers += repeat(None, missing)
        trial.leg, trial.parameters = event.leg, json.loads(event.parameters)
        trial.checkpoints = []
        trial.paused, trial.decided, trial.silent = None, None, False
        self._hold(trial)
        return [("leg_began", trial), *self._resized(event, trial)]

    def _resized(self, event: m.RolledBack | m.LegBegan, trial: Trial) -> list[Call]:
        """Update the trial's resources, if another attempt begins with other ones."""
        if event.resources is None:
            return _NONE
        trial.resources = {**self.experiment.resources, **event.resources}
        return [("resources_changed", trial)]

    def _finished(self, event: m.TrialFinished, trial: Trial) -> list[Call]:
        trial.status = event.status or ("SUCCEEDED" if event.success else "FAILED")
        trial.decided = None
        del self.trials[trial.id]
        for kept in (self.held, self.pauses, self._causes, self._inherited):
            kept.pop(trial.id, None)
        self._faulty.discard(trial.id)
        return [("trial_ended", trial)]


def _read(text: str) -> Any:
    """Decode the JSON text of a result. A result that cannot be decoded is its text."""
    try:
        return json.loads(text)
    except ValueError:  # for example a number with too many digits
        return text


def _cut(trial: Trial, reports: int) -> None:
    del trial.results[reports:]
    del trial.numbers[reports:]
