"""Keeps the further parameter sets of running multi-phase trials, for the tuner's child process."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnimgr.dispatcher.history import Event, PastSuggestion
from nnimgr.dispatcher.messages import ResultReported, SetDiscarded, TrialFinished

__all__ = ["FurtherSets", "Phases"]


@dataclass(slots=True)
class Phases:
    """Further parameter sets of one multi-phase trial, and the ids of all its sets whose results the tuner
    has got.
    """

    sets: dict[int, str] = field(default_factory=dict)  # id -> further set, as JSON text
    told: set[int | None] = field(default_factory=set)  # ids of the sets whose results the tuner has received


_NONE = Phases()


class FurtherSets:
    """Further parameter sets of all running multi-phase trials."""

    def __init__(self) -> None:
        self._trials: dict[str, Phases] = {}

    def of(self, trial_id: str) -> Phases:
        """Return the further parameter sets of a trial. The caller must not change the returned object."""
        return self._trials.get(trial_id, _NONE)

    def add(self, trial_id: str, parameter_id: int, parameters: str) -> None:
        """Add a further parameter set to the trial."""
        self._trials.setdefault(trial_id, Phases()).sets[parameter_id] = parameters

    def hear(self, event: Event) -> None:
        """Record what an event means for the parameter sets that running trials have got beyond their first.

        Events of the experiment's past are passed here again when the tuner is rebuilt.
        """
        match event:
            case PastSuggestion(further=True):
                self.add(event.trial_id, event.parameter_id, event.parameters)
            case ResultReported():
                self._trials.setdefault(event.trial_id, Phases()).told.add(event.parameter_id)
            case TrialFinished():
                self._trials.pop(event.trial_id, None)
            case SetDiscarded():
                self.of(event.trial_id).sets.pop(event.parameter_id, None)
