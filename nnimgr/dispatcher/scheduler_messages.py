"""Messages that only the child of a scheduler gets or sends. ``messages`` re-exports them.

A scheduler gets every event after its commit, in the order of the log. ``number`` is the number of the fact,
so that a restarted child reads the same events from the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "CheckpointSaved",
    "Decided",
    "DecisionRefused",
    "LegBegan",
    "NoMoreTrials",
    "SlotLent",
    "TrialContinued",
    "TrialCreated",
    "TrialPaused",
    "TrialsAgain",
]


# ---- to the child ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCreated:
    """Message to a scheduler: a trial was created (the fact Suggested, from any source). No message is sent
    for a trial that gets the result of an earlier one.

    ``parameters``: JSON text of its parameter set. ``reports``: number of intermediate results with which it
    begins, because it is a fork that continues from a checkpoint of another trial.
    """

    number: int
    trial_id: str
    parameters: str
    reports: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """Message to a scheduler: a trial has saved a usable checkpoint, its number ``checkpoint`` in this
    attempt.

    ``reports``: number of the trial's intermediate results that the checkpoint covers. ``step``: the trial's
    own count of its progress, or None.
    """

    number: int
    trial_id: str
    attempt: int
    checkpoint: int
    reports: int
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaused:
    """Message to a scheduler: a trial is paused. ``by``: "user" or "scheduler".

    It is sent again if a user pauses a trial that the scheduler has paused. No message is sent if a stop of
    the experiment interrupts the trial.
    """

    number: int
    trial_id: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialContinued:
    """Message to a scheduler: a paused trial is to continue, as soon as a slot is free.

    The fact is ResumeRequested if a user wants it, or the Decided of the scheduler's own decision.
    """

    number: int
    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LegBegan:
    """Message to a scheduler: the decision "exploit" has been carried out.

    From now on, as attempt ``attempt``, the trial runs with ``parameters`` (JSON text), from a checkpoint
    that covers ``reports`` intermediate results. Only these results still count. ``leg``: how often the
    trial's parameters have been replaced. ``position``: number of frames up to the checkpoint, from which the
    new attempt's frames are counted. ``resources``: see the fact AttemptDue.
    """

    number: int
    trial_id: str
    attempt: int
    leg: int
    parameters: str
    position: int
    reports: int
    resources: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLent:
    """Message to a scheduler: a trial's host has been silent for so long that another trial may use its slot.

    No other trial should wait for the results of this trial.
    """

    number: int
    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMoreTrials:
    """Message to a scheduler: the experiment drains, so no trials are created from now on."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsAgain:
    """Message to a scheduler: the experiment creates trials again, for example because a user has raised a
    limit.
    """

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRefused:
    """Message to a scheduler: its decision of the kind ``kind`` about a trial was not carried out.

    ``cause``: number of the fact that had caused the decision. ``reason``: one sentence.
    """

    number: int
    trial_id: str
    cause: int
    kind: str
    reason: str


# ---- from the child --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Message of a scheduler: its decision about a trial. There is at most one for each cause and trial.

    ``cause``: number of the fact that caused the decision. ``kind``: "pause", "continue", "stop", "exploit"
    or "resize". ``reason``: one sentence. ``rung``: the number of results at which trials were compared, if
    any. ``better``: some better trials.

    Only for "exploit": the trial is to run with ``parameters`` (JSON text), from checkpoint ``checkpoint``
    (attempt, number) of the trial ``donor``. The donor may be the trial itself. A paused trial then
    continues, without another decision. Only for "resize": the trial's new ``resources``.
    """

    cause: int
    kind: str
    trial_id: str
    reason: str
    parameters: str | None = None
    donor: str | None = None
    checkpoint: tuple[int, int] | None = None
    rung: int | None = None
    better: tuple[str, ...] = ()
    resources: Mapping[str, float] | None = None
