"""Everything that can happen to an experiment: frozen records in one union, the truth that is stored.

A fact says what has happened, never what to do. Fields may be added (with a default), never renamed or
removed: old databases are folded with them. The job events of ``training_services.base`` are facts as they
stand. ``Recorded`` is a fact with its number and the instant it was taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from nnimgr.rules.terms import (
    DrainReason,
    ExperimentStatus,
    Limits,
    MetricType,
    OnFailure,
    Role,
    StopKind,
    SuggestionSource,
    TrialStatus,
    TunerTraits,
)
from training_services.base import (
    EndReason,
    FrameSkipped,
    JobEnded,
    JobEvent,
    JobLost,
    JobNoted,
    JobPlaced,
    JobStarted,
    JobWaiting,
    KeeperAcknowledged,
    KeeperBound,
    KeeperEnrolled,
    KeeperGone,
    KeeperHeard,
    KeeperSilent,
    MachineAdded,
    MachineDrained,
    MachineGone,
    MachineRemoved,
    MetricReported,
    ParametersWanted,
    StopOrdered,
    UpdateOrdered,
)

__all__ = [
    "AlgorithmFailed",
    "AlgorithmRecovered",
    "AttemptDue",
    "ConfigChanged",
    "DataImported",
    "DrainReason",
    "EndReason",
    "ExperimentCreated",
    "ExperimentMoved",
    "ExperimentOpened",
    "ExperimentStatus",
    "ExperimentStopRequested",
    "Fact",
    "FrameSkipped",
    "FurtherSuggested",
    "JobEnded",
    "JobEvent",
    "JobLost",
    "JobNoted",
    "JobPlaced",
    "JobStarted",
    "JobWaiting",
    "KeeperAcknowledged",
    "KeeperBound",
    "KeeperEnrolled",
    "KeeperGone",
    "KeeperHeard",
    "KeeperSilent",
    "Limits",
    "LossDeclared",
    "MachineAdded",
    "MachineDrained",
    "MachineGone",
    "MachineRemoved",
    "OnFailure",
    "MetricReported",
    "MetricType",
    "ParametersWanted",
    "Recorded",
    "ResultReused",
    "ResultTaken",
    "ResumeRequested",
    "Reuse",
    "Role",
    "SlotLent",
    "StopKind",
    "StopOrdered",
    "StopRequested",
    "Suggested",
    "SuggestionSource",
    "TargetMoved",
    "TrialEnded",
    "TrialNoted",
    "TrialPaused",
    "TrialStatus",
    "TunerExhausted",
    "TunerTraits",
    "UpdateOrdered",
    "Verdict",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCreated:
    """``config`` is canonical (camelCase, no nulls, no secrets: references stay references).

    ``traits``: of its tuner. Facts of earlier versions lack them and are completed by the store.
    """

    experiment_id: str
    config: Mapping[str, Any]
    search_space: Mapping[str, Any]
    limits: Limits
    traits: TunerTraits


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOpened:
    """A runner has taken the experiment (server start, resume, revival after a failed commit).

    ``missing``: facts that were committed once and that the database does not have, as it is an older one;
    ``next_sequence``: the number of the first trial that was never created, not even then.
    """

    m_epoch: int
    resumed: bool = False  # by the user, after STOPPED, DONE or ERROR
    missing: int = 0
    next_sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged:
    """``changes`` holds canonical camelCase top-level fields with their new values.

    ``traits``: of the new tuner if the tuner is among the changes.
    """

    changes: Mapping[str, Any]
    limits: Limits
    search_space: Mapping[str, Any] | None = None
    traits: TunerTraits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """The result of an earlier trial with the same parameters. ``text``: JSON text of its final metric."""

    trial_id: str
    text: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """A parameter set that becomes a trial. ``parameters`` is JSON text, in the order of the search space.

    ``fed_to``: the fact number up to which the tuner had been fed when it was asked; ``tuner_state`` is what
    its ``dump_state`` gave afterwards. ``parameter_id`` is None for a customised trial. ``reuse``: the trial
    is not run, but has this result. ``request_key``: the client's idempotency key for a customised trial.
    """

    trial_id: str
    sequence: int
    source: SuggestionSource
    parameter_id: int | None
    parameters: str
    fed_to: int | None = None
    tuner_state: str | None = None
    retry_of: str | None = None
    reuse: Reuse | None = None
    request_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherSuggested:
    """Parameter set number ``index`` (the trial's first is 0) of a multi-phase trial, with an id of its own.

    ``parameters`` None: the tuner has no more, which the trial is told. ``late``: the trial had ended before
    it came, and nobody uses it. ``fed_to`` and ``tuner_state`` as in Suggested.
    """

    trial_id: str
    index: int
    parameter_id: int | None
    parameters: str | None
    fed_to: int | None = None
    tuner_state: str | None = None
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTaken:
    """Parameter set number ``index`` of a multi-phase trial has its result, which the tuner is told at once.

    It follows from the first FINAL metric of the set; ``text`` is the JSON text of that metric's value.
    """

    trial_id: str
    index: int
    parameter_id: int | None
    parameters: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReused:
    """The trial has the result of an earlier trial with the same parameters, and is not run.

    ``source_id``: the earlier trial. ``text``: JSON text of its final metric, ``value`` the number in it.
    Earlier versions recorded a final metric of an attempt that there never was instead.
    """

    trial_id: str
    parameter_id: int | None
    source_id: str
    text: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerExhausted:
    """The tuner has no more parameter sets (NoMoreTrialError)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmFailed:
    """User code of a tuner or assessor raised, answered nonsense or died.

    ``fatal``: its process is gone or useless; more than three in a row without an answer end in ERROR, and
    ``hopeless`` (a constructor error, an import error) at once. ``idle``: it died without being asked for
    anything, which says nothing of what it would have answered.
    """

    role: Role
    call: str
    sentence: str
    traceback: str = ""
    fatal: bool = False
    hopeless: bool = False
    idle: bool = False
    trial_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmRecovered:
    """After a crash the algorithm has answered again (or has lived for a while with nothing to answer)."""

    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The assessor judges the trial Bad at this metric. ``reason``: one sentence, if it gives any.

    ``rung``: the step at which it was compared with others, where there are such steps. ``better``: a few of
    the trials that it was worse than.
    """

    trial_id: str
    attempt: int
    position: int
    reason: str = ""
    rung: int | None = None
    better: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """A user wants this trial to end (or to pause)."""

    trial_id: str
    kind: StopKind = StopKind.USER


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStopRequested:
    """The user stops the experiment; ``detach``: trials run on and are adopted at resume."""

    detach: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DataImported:
    """``records``: JSON text of a list of {"parameter", "value"}."""

    records: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMoved:
    """What should become of the trial changed by a limit or by the experiment (not by a StopRequested)."""

    trial_id: str
    kind: StopKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDue:
    """The trial gets a further attempt at ``due_at``; ``reason`` says why the last one does not count.

    ``lost``: its infrastructure was, ``failed``: its command has; either may happen so many times only.
    """

    trial_id: str
    attempt: int
    due_at: datetime
    reason: str
    lost: bool = True
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaused:
    """The attempt has ended because the trial pauses; it goes on with a further attempt when asked.

    ``reason``: why it pauses, without saying that it does.
    """

    trial_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested:
    """A user wants a paused trial to go on."""

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDeclared:
    """A user says that a trial whose host is silent will not come back: its attempt is to count as lost."""

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLent:
    """The host of the trial has been silent for so long that its slot is another trial's until it speaks."""

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialNoted:
    """One sentence on a trial that the user should read. Changes nothing."""

    trial_id: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """The trial is over. ``reason``: why, in one sentence that does not repeat the status.

    ``stand_in``: JSON text of what the tuner gets for a result, since the trial has none that it can use.
    ``untried``: it was called off without a user's wish, and its parameter set may be suggested again.
    ``failure``: how its command failed, without details; failures with equal texts are alike.
    """

    trial_id: str
    status: TrialStatus
    reason: str
    stand_in: str | None = None
    untried: bool = False
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentMoved:
    """The experiment's status changed. ``reason``: why, in one sentence that does not repeat the status."""

    status: ExperimentStatus
    reason: str
    drain: DrainReason | None = None


Fact = (
    ExperimentCreated
    | ExperimentOpened
    | ConfigChanged
    | Suggested
    | FurtherSuggested
    | ResultTaken
    | ResultReused
    | TunerExhausted
    | AlgorithmFailed
    | AlgorithmRecovered
    | Verdict
    | StopRequested
    | ExperimentStopRequested
    | DataImported
    | TargetMoved
    | AttemptDue
    | TrialPaused
    | ResumeRequested
    | LossDeclared
    | SlotLent
    | TrialNoted
    | TrialEnded
    | ExperimentMoved
    | JobEvent
)


class Recorded(NamedTuple):
    """A fact with its number in the experiment's log and the instant its turn was taken."""

    number: int
    at: datetime
    fact: Fact
