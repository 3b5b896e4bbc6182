"""Interface of sinks, which write what happens in an experiment to another place, such as files or MLflow.

A sink runs in a process of its own, in one thread, one call at a time. It gets the events in their order, in
batches, each event with its number. It stores the number of the last event together with what it writes.
After its process has died, a new one begins after that number. So no event is lost, and none is written
twice.

Standard library only, because the modules of sinks import it before their libraries.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

__all__ = [
    "Event",
    "Experiment",
    "ExperimentMoved",
    "Reported",
    "Sink",
    "SinkError",
    "TrialCreated",
    "TrialEnded",
    "TrialRestarted",
    "TrialStarted",
    "as_json",
]


class SinkError(Exception):
    """Error: a sink cannot write. The message is one sentence for the user.

    The sink is started again later.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened. ``number``: its place among all events of the experiment."""

    number: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfTrial(Event):
    """Event of a trial. ``trial``: the trial's number, from 0. ``trial_id``: its id."""

    trial: int
    trial_id: str

    @property
    def name(self) -> str:
        """Name of the trial, such as "12-k3x9z", which is valid as the name of a folder."""
        return f"{self.trial}-{self.trial_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCreated(_OfTrial):
    """A new trial. ``source``: "algorithm", "customized", "resumed", "rerun", "fork" or "confirmation"."""

    parameters: Any
    source: str = "algorithm"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted(_OfTrial):
    """The trial's command runs. ``attempt``: from 1."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(_OfTrial):
    """Intermediate result. ``step``: its number, from 0. ``result``: what the trial has reported.

    ``value``: the number that counts, or None.
    """

    step: int
    value: float | None
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRestarted(_OfTrial):
    """The trial gets another attempt, which begins with step ``step``.

    Earlier reports with this step or later ones no longer count, and are reported again. ``parameters``: the
    new parameters; None: they are the same as before.
    """

    step: int
    attempt: int
    reason: str
    parameters: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded(_OfTrial):
    """``result``: the final result, or None. ``value``: the number that counts in it, or None.

    ``parameters``: the parameter set that has this result, if the trial had several; else None.
    """

    status: str
    reason: str
    value: float | None
    result: Any
    parameters: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentMoved(Event):
    """The experiment has another status, such as RUNNING, DONE or STOPPED."""

    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What a sink knows of its experiment.

    ``created_at``: an experiment that is deleted, and created again with the same id, has another time here.
    ``directory``: folder that the sink may write to, if its arguments name no other place. ``curve``:
    function that returns the intermediate results of a trial that count now: (step, time, value, result).
    """

    id: str
    created_at: datetime
    name: str
    directory: Path
    search_space: Mapping[str, Any]
    curve: Callable[[str], Sequence[tuple[int, datetime, float | None, Any]]] = field(repr=False)

    @property
    def key(self) -> str:
        """Text that no other experiment has: its id and the time of its creation."""
        return f"{self.id}.{self.created_at:%Y%m%dT%H%M%S%f}"


class Sink(ABC):
    """Base class of sinks. The arguments of the constructor are those in ``classArgs``.

    The constructor only checks arguments. ``open`` prepares the place. Errors that a user can correct are
    raised as SinkError.
    """

    @abstractmethod
    def open(self, experiment: Experiment) -> int:
        """Prepare the place, and return the number of the last event that is written there; 0: none."""

    @abstractmethod
    def write(self, events: Sequence[Event]) -> None:
        """Write a batch of events, and the number of the last one. Return when both survive a crash.

        If the process dies meanwhile, the next process gets the same events again, perhaps in other batches.
        What has been written of them must not be doubled.
        """

    def close(self) -> None:  # noqa: B027 (most sinks have nothing to close)
        """Let go of the place. The call may not come, because a process may be killed."""


def as_json(value: Any) -> str:
    """Return a value as compact JSON text. Values that JSON cannot express, such as infinity, become text."""
    how: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":"), "default": str}
    try:
        return json.dumps(value, allow_nan=False, **how)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value, **how), parse_constant=str), **how)
