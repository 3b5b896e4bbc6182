"""Facts: everything that can happen to an experiment, as frozen records. Facts are stored for ever.

A fact says what has happened, never what to do. Fields may be added with a default, but never renamed or
removed, because old databases hold facts with these fields. The job events of ``training_services.base`` are
facts, too. ``Recorded`` is a fact with its number and its time.
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
    """An experiment was created. ``config`` is canonical (camelCase, no nulls, references instead of
    secrets).

    ``traits``: properties of its tuner. The store adds them to facts of earlier versions. ``ids_from``:
    number of the first trial's id in the sequence of ids (``trial_id_of``), above 0 if lower ids may be used.
    """

    experiment_id: str
    config: Mapping[str, Any]
    search_space: Mapping[str, Any]
    limits: Limits
    traits: TunerTraits
    ids_from: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOpened:
    """A runner has opened the experiment, after a server start, a resume or a failed commit.

    ``missing``: number of committed facts that the database lacks because it was replaced by an older one.
    ``next_sequence``: the lowest number that no trial ever had, including trials of the missing facts.
    """

    m_epoch: int
    resumed: bool = False  # a user has resumed it after STOPPED, DONE or ERROR
    missing: int = 0
    next_sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged:
    """The configuration was changed. ``changes``: canonical camelCase top-level fields with their new values.

    ``traits``: properties of the new tuner if the tuner was changed.
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
    """A parameter set becomes a trial. ``parameters``: JSON text in the order of the search space.

    ``fed_to``: number of the last fact that the tuner knew when it suggested the set. ``tuner_state``: the
    tuner's ``dump_state`` afterwards. ``parameter_id``: None for a customised trial. ``reuse``: the result
    that the trial gets instead of being run. ``request_key``: the client's idempotency key of a customised
    trial.
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
    """A multi-phase trial gets parameter set number ``index``, with its own id. The trial's first set has
    number 0.

    ``parameters``: None if the tuner has no more sets. ``late``: the trial had ended before the set arrived,
    so the set is not used. ``fed_to`` and ``tuner_state``: as in Suggested.
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
    """Parameter set number ``index`` of a multi-phase trial has a result, which is sent to the tuner at
    once.

    The fact follows from the first FINAL metric of the set. ``text``: JSON text of that metric's value.
    """

    trial_id: str
    index: int
    parameter_id: int | None
    parameters: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReused:
    """The trial gets the result of an earlier trial with the same parameters, and is not run.

    ``source_id``: the earlier trial. ``text``: JSON text of its final metric. ``value``: the number in this
    metric. Earlier versions recorded a final metric of an attempt that never existed instead.
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
    """User code of a tuner or assessor raised an exception, gave an invalid answer, or its process died.

    ``fatal``: the process is gone or useless; more than three in a row without an answer lead to ERROR.
    ``hopeless``: a constructor or an import failed, which leads to ERROR at once. ``idle``: the process died
    without a request, which does not count as a missing answer.
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
    """After a crash, the algorithm has answered again, or has lived for a while without a request."""

    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The assessor judges the trial bad at this metric. ``reason``: one sentence, if the assessor gives one.

    ``by``: the tuner, if it is an advisor. ``attempt`` 0 and ``position`` -1: before any metric, whatever the
    attempt.

    ``rung``: the step at which the trial was compared with others, if there are such steps. ``better``: a few
    of the trials with better results.
    """

    trial_id: str
    attempt: int
    position: int
    reason: str = ""
    rung: int | None = None
    better: tuple[str, ...] = ()
    by: Role = Role.ASSESSOR


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """A user wants to stop or pause this trial."""

    trial_id: str
    kind: StopKind = StopKind.USER


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStopRequested:
    """A user stops the experiment. With ``detach``, its trials continue, and a resume adopts them."""

    detach: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DataImported:
    """Results were imported. ``records``: JSON text of a list of {"parameter", "value"}."""

    records: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMoved:
    """A limit or the experiment's end has changed how the trial is to end.

    Users' stops are StopRequested instead.
    """

    trial_id: str
    kind: StopKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDue:
    """The trial gets another attempt at ``due_at``. ``reason``: why the previous attempt does not count.

    ``lost``: number of attempts that were lost with their infrastructure. ``failed``: number of attempts
    whose command failed. Both numbers are limited.
    """

    trial_id: str
    attempt: int
    due_at: datetime
    reason: str
    lost: bool = True
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaused:
    """The attempt has ended because the trial pauses. On request, another attempt continues the trial.

    ``reason``: why the trial pauses, without the statement that it pauses.
    """

    trial_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested:
    """A user wants a paused trial to continue."""

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDeclared:
    """A user says that the silent host of a trial will not come back.

    The attempt on this host counts as lost.
    """

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLent:
    """The host of a trial was silent for a long time, so another trial may use the slot until the host
    answers.
    """

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialNoted:
    """A sentence about a trial for its user. The note changes nothing else."""

    trial_id: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """A trial has ended. ``reason``: why, in one sentence that does not repeat the status.

    ``stand_in``: JSON text of the result that the tuner gets, because the trial has no usable result.
    ``untried``: the trial was cancelled without a user's wish, so its parameter set may be suggested again.
    ``failure``: how the command failed, without details; failures with equal texts are alike.
    """

    trial_id: str
    status: TrialStatus
    reason: str
    stand_in: str | None = None
    untried: bool = False
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentMoved:
    """The status of the experiment has changed. ``reason``: why, in one sentence that does not repeat the
    status.
    """

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
    """A fact with its number in the experiment's log and the instant of its turn."""

    number: int
    at: datetime
    fact: Fact
