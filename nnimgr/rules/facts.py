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

from nnimgr.rules.search_facts import (
    AlgorithmFailed,
    AlgorithmRecovered,
    DataImported,
    Decided,
    DecisionRefused,
    FurtherSuggested,
    ResultReused,
    ResultTaken,
    Reuse,
    Suggested,
    TunerExhausted,
    Verdict,
)
from nnimgr.rules.terms import (
    ConfirmBest,
    DecisionKind,
    DrainReason,
    ExperimentStatus,
    Limits,
    MemberRange,
    MemoryGrowth,
    MetricType,
    OnFailure,
    PausedBy,
    Plateau,
    Role,
    RunningTrials,
    StopKind,
    StopWhen,
    SuggestionSource,
    TrialStatus,
    TunerTraits,
)
from training_services.base import (
    Cause,
    CheckpointKeepBegun,
    CheckpointKept,
    CheckpointLost,
    CheckpointReported,
    CheckpointsDeleted,
    CheckpointsPruned,
    CheckpointStored,
    EndReason,
    FewerMembersWanted,
    FrameSkipped,
    GangGathered,
    HostVanished,
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
    KeptCopy,
    MachineAdded,
    MachineDrained,
    MachineGone,
    MachineRemoved,
    MemberEnded,
    MemberLost,
    MemberPlace,
    MembersStopped,
    MemberStarted,
    MetricReported,
    Origin,
    ParametersWanted,
    PreemptionWanted,
    RoomForMembers,
    SaveOrdered,
    StopOrdered,
    UpdateOrdered,
)

__all__ = [
    "AlgorithmFailed",
    "AlgorithmRecovered",
    "AttemptDue",
    "Cause",
    "CheckpointKeepBegun",
    "CheckpointKept",
    "CheckpointLost",
    "CheckpointPinned",
    "CheckpointReported",
    "CheckpointStored",
    "CheckpointsDeleted",
    "CheckpointsPruned",
    "ConfigChanged",
    "ConfirmBest",
    "DataImported",
    "Decided",
    "DecisionKind",
    "DecisionRefused",
    "DrainReason",
    "EndReason",
    "ExperimentCreated",
    "ExperimentMoved",
    "ExperimentOpened",
    "ExperimentStatus",
    "ExperimentStopRequested",
    "Fact",
    "FewerMembersWanted",
    "FrameSkipped",
    "FurtherSuggested",
    "GangGathered",
    "GrowthBegun",
    "GrowthEnded",
    "HostVanished",
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
    "KeptCopy",
    "Limits",
    "LossDeclared",
    "MemberRange",
    "MemoryGrowth",
    "MachineAdded",
    "MachineDrained",
    "MachineGone",
    "MachineRemoved",
    "MemberEnded",
    "MemberLost",
    "MemberPlace",
    "MemberStarted",
    "MembersStopped",
    "OnFailure",
    "MetricReported",
    "MetricType",
    "Origin",
    "ParametersWanted",
    "PausedBy",
    "Plateau",
    "PreemptionWanted",
    "Recorded",
    "ResultReused",
    "ResultTaken",
    "ResumeRequested",
    "RoomForMembers",
    "Reuse",
    "Role",
    "RunningTrials",
    "SaveRequested",
    "SlotLent",
    "StopKind",
    "SaveOrdered",
    "StopOrdered",
    "StopRequested",
    "StopWhen",
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
    """Fact: an experiment was created. ``config`` is canonical (camelCase, no nulls, references instead of
    secrets).

    ``traits``: properties of its tuner. The store adds them to facts of earlier versions. ``ids_from``:
    position of the first trial's id in the sequence of all ids (``trial_id_of``), above 0 if the ids before
    it may be used already.
    """

    experiment_id: str
    config: Mapping[str, Any]
    search_space: Mapping[str, Any]
    limits: Limits
    traits: TunerTraits
    ids_from: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOpened:
    """Fact: a runner has opened the experiment, after a server start, a resume or a failed commit.

    ``missing``: number of committed facts that the database lacks because it was replaced by an older
    database. ``next_sequence``: the lowest number that no trial ever had, including trials of the missing
    facts.
    """

    m_epoch: int
    resumed: bool = False  # a user has resumed it after STOPPED, DONE or ERROR
    missing: int = 0
    next_sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged:
    """Fact: the configuration was changed.

    ``changes``: top-level fields (canonical, camelCase) with their new values. ``traits``: properties of the
    new tuner if the tuner was changed.
    """

    changes: Mapping[str, Any]
    limits: Limits
    search_space: Mapping[str, Any] | None = None
    traits: TunerTraits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """Fact: a user wants to stop or pause this trial."""

    trial_id: str
    kind: StopKind = StopKind.USER


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStopRequested:
    """Fact: a user stops the experiment.

    With ``detach``, its trials continue, and a resume of the experiment adopts them (continues to watch
    them). With ``save``, running trials are asked to save their state first.
    """

    detach: bool = False
    save: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMoved:
    """Fact: a limit or the experiment's end requires that a trial stops. ``kind`` is the new target.

    A user's request to stop a trial is the fact StopRequested instead.
    """

    trial_id: str
    kind: StopKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDue:
    """Fact: the trial gets another attempt at ``due_at``. ``reason``: why the previous attempt does not
    count.

    ``cause``: cause of the previous attempt's failure or loss; None: it neither failed nor was lost.
    ``lost``, ``failed``: the retry counts as one after a loss, or as one after a user error. A trial has
    limited numbers of both. Any other retry counts for its cause alone. ``origin``: checkpoint from which the
    new attempt continues; None: it starts from the beginning. ``previous``: number of the previous attempt,
    from which the new one takes over the results up to the origin; 0 in logs of earlier versions.
    ``rolled_back``: number of intermediate results after the origin, which no longer count because the
    attempt reports them again.

    ``seats``: keepers that have had members of the previous attempt, in the order of the members, and may
    have members again. ``most_members``: largest number of members of the new attempt; None: as configured.

    ``leg``: number of the leg that begins with the attempt, from 1; None: the present leg goes on.
    ``parameters``: JSON text of the new leg's parameters. ``resources``: all resources that differ from the
    configuration from now on; None: the trial's resources stay as they are.
    """

    trial_id: str
    attempt: int
    due_at: datetime
    reason: str
    lost: bool = True
    failed: bool = False
    origin: Origin | None = None
    previous: int = 0
    rolled_back: int = 0
    cause: Cause | None = None
    seats: tuple[str, ...] = ()
    most_members: int | None = None
    leg: int | None = None
    parameters: str | None = None
    resources: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPaused:
    """Fact: an attempt has ended because the trial pauses. On request, another attempt continues the trial.

    ``reason``: why the trial pauses, without the statement that it pauses. ``parked``: the experiment was
    stopped, and its resume continues the trial. ``by``: who has paused the trial.
    """

    trial_id: str
    reason: str
    parked: bool = False
    by: PausedBy = PausedBy.USER


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequested:
    """Fact: a user wants a paused trial to continue."""

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossDeclared:
    """Fact: a user has declared that the silent host of a trial will not come back.

    The attempt on this host counts as lost.
    """

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRequested:
    """Fact: a user wants a running trial to save its state, without a pause."""

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPinned:
    """Fact: a user has pinned a checkpoint of the job, so that it is not deleted. Not ``pinned``: the user
    has taken the pin back.

    ``origin``: the checkpoint if its trial has ended, because the state does not hold ended trials.
    """

    job_id: str
    number: int
    pinned: bool = True
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthBegun:
    """Fact: the job is asked to save its state, so that its trial can continue with ``members`` members."""

    job_id: str
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthEnded:
    """Fact: the job, which was asked to save its state, continues with the members that it has.

    ``in_vain``: the trial has not saved in time, so that it is not asked again in this attempt.
    """

    job_id: str
    reason: str
    in_vain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLent:
    """Fact: another trial may use the slot of this trial, whose host has been silent for a long time.

    The slot is lent until the host answers.
    """

    trial_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialNoted:
    """Fact: a sentence about a trial was noted, which is shown to users. The note changes nothing else."""

    trial_id: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """Fact: a trial has ended. ``reason``: why, in one sentence that does not repeat the status.

    ``stand_in``: JSON text of the result that the tuner gets, because the trial has no usable result.
    ``untried``: the system canceled the trial, not a user, so its parameter set may be suggested again.
    ``failure``: how the command failed, without details; equal texts mean that two trials failed alike.
    ``cause``: cause of the last attempt's failure or loss if the trial has failed.
    """

    trial_id: str
    status: TrialStatus
    reason: str
    stand_in: str | None = None
    untried: bool = False
    failure: str | None = None
    cause: Cause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentMoved:
    """Fact: the status of the experiment has changed.

    ``reason``: why the status has changed, in one sentence that does not repeat the status.
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
    | Decided
    | DecisionRefused
    | StopRequested
    | ExperimentStopRequested
    | DataImported
    | TargetMoved
    | AttemptDue
    | TrialPaused
    | ResumeRequested
    | LossDeclared
    | SaveRequested
    | GrowthBegun
    | GrowthEnded
    | CheckpointPinned
    | SlotLent
    | TrialNoted
    | TrialEnded
    | ExperimentMoved
    | JobEvent
)


class Recorded(NamedTuple):
    """A fact with its number in the experiment's log, and the time at which the runner processed it."""

    number: int
    at: datetime
    fact: Fact
