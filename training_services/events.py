"""Facts about jobs, keepers and machines that a training service reports to the core.

The core stores them unchanged: ``nnimgr.rules.facts`` imports these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from training_services.checkpoint_events import (
    CheckpointKeepBegun,
    CheckpointKept,
    CheckpointLost,
    CheckpointReported,
    CheckpointsDeleted,
    CheckpointsPruned,
    CheckpointStored,
)
from training_services.gang_events import (
    FewerMembersWanted,
    GangGathered,
    MemberEnded,
    MemberLost,
    MemberPlace,
    MembersStopped,
    MemberStarted,
    RoomForMembers,
)
from training_services.outcomes import Cause, EndReason, Place

__all__ = [
    "Cause",
    "CheckpointKeepBegun",
    "CheckpointKept",
    "CheckpointLost",
    "CheckpointReported",
    "CheckpointStored",
    "CheckpointsDeleted",
    "CheckpointsPruned",
    "EndReason",
    "FewerMembersWanted",
    "FrameSkipped",
    "GangGathered",
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
    "MachineAdded",
    "MachineDrained",
    "MachineEvent",
    "MachineGone",
    "MachineRemoved",
    "MemberEnded",
    "MemberLost",
    "MemberPlace",
    "MemberStarted",
    "MembersStopped",
    "MetricReported",
    "ParametersWanted",
    "Place",
    "PreemptionWanted",
    "RoomForMembers",
    "SaveOrdered",
    "StopOrdered",
    "UpdateOrdered",
    "never_started",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlaced:
    """Fact: a machine was chosen for the job.

    The command that starts the job has the number ``cmd_seq``. It is sent when this fact is committed.
    ``members``: places of members 1, 2 and so on of a gang, whose leader has the place ``place``.
    ``reason``: why it was placed there, as a sentence; None: the first platform had a free place.
    """

    job_id: str
    place: Place
    cmd_seq: int
    members: tuple[MemberPlace, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWaiting:
    """Fact: the job waits for a place; ``reason`` is one sentence."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """Fact: the attempt's command is running. ``started_at`` is by the clock of its machine."""

    job_id: str
    started_at: datetime
    pid: int | None = None


class MetricReported(NamedTuple):
    """Fact: the trial reported one metric. Each report is one frame in the attempt's metrics file.

    The type is a named tuple because the server creates up to 100,000 of them per second. ``position`` is the
    frame's number in the file, from 0. ``text`` is the JSON text of the value as the trial wrote it (it may
    be NaN). ``value`` is the number in the text (``default`` of a mapping), or None if there is no finite
    number.
    """

    job_id: str
    position: int
    type: str  # "PERIODICAL" or "FINAL"
    sequence: int
    parameter_id: str | None  # JSON text of the frame's parameter_id; None for null or missing
    value: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSkipped:
    """Fact: a frame (one record) of the trial's metrics file is not a valid metric.

    The frame still counts as received. ``reason`` is a sentence that is shown on the trial.
    """

    job_id: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersWanted:
    """Fact: the trial asked for parameter set number ``index`` (NNI's REQUEST_PARAMETER frame)."""

    job_id: str
    position: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOrdered:
    """Fact: the core ordered a further parameter set for a running job.

    The command that sends the set has the number ``cmd_seq``.
    """

    job_id: str
    index: int
    cmd_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOrdered:
    """Fact: the job, which runs on, was ordered to save its state. ``within``: time after which a missing
    answer is reported. ``cmd_seq`` is None if the platform cannot ask its jobs, so that no command is sent.
    """

    job_id: str
    cmd_seq: int | None
    within: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrdered:
    """Fact: the core ordered the job to stop. The command that stops the job has the number ``cmd_seq``.

    ``cmd_seq`` is None if the job had no place, so that no command is sent. ``save_within``: time that the
    trial has before the stop to save its state; None: it is not asked to.
    """

    job_id: str
    cmd_seq: int | None
    grace: timedelta
    save_within: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """Fact: the attempt has ended.

    None of its processes run, all its metrics have been reported, and no event about it follows. ``metrics``:
    number of frames in its metrics file; ``acked_cmd``: highest number of a command that its keeper has
    carried out; ``message``: a sentence if there is more to report than the exit code; ``cause``: cause of
    the failure if the exit code does not show it.
    """

    job_id: str
    reason: EndReason
    exit_code: int | None
    signal: int | None
    metrics: int
    acked_cmd: int
    ended_at: datetime
    message: str | None = None
    cause: Cause | None = None


def never_started(job_id: str, message: str, cause: Cause | None = None) -> JobEnded:
    """Return the fact that ends a job that never got a place. ``message``: a sentence that says why."""
    return JobEnded(
        job_id=job_id,
        reason=EndReason.NEVER_STARTED,
        exit_code=None,
        signal=None,
        metrics=0,
        acked_cmd=0,
        ended_at=datetime.now(UTC),
        message=message,
        cause=cause,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLost:
    """Fact: the attempt was lost, and its end was never reported. Later reports about the attempt are
    ignored.

    Either the loss is proven (a reboot, a deleted directory, a missing pod, an expired lease), or a user has
    declared the machine lost. ``unproven``: neither; the attempt was to be stopped and its end was waited for
    too long, so it may still run, and no further attempt of the trial may follow.
    """

    job_id: str
    reason: str
    cause: Cause = Cause.INFRASTRUCTURE
    unproven: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNoted:
    """Fact: there is a note about the job for the user. The note does not change the job's state."""

    job_id: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionWanted:
    """Fact: the job has to stop, because a waiting job of another experiment needs its resources.

    ``by``: that experiment, which has a higher priority. The job's trial continues later with another
    attempt.
    """

    job_id: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperEnrolled:
    """Fact: a keeper may call with the token that has this SHA-256 (hex).

    The fact is committed before the keeper starts.
    """

    keeper_id: str
    token_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperBound:
    """Fact: a keeper has called for the first time with this directory (``instance``) and this boot.

    From now on, calls with the keeper's token are accepted only from this directory and boot.
    """

    keeper_id: str
    instance: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperAcknowledged:
    """Fact: the keeper has carried out all commands up to number ``acked_cmd``.

    The fact is reported only if an ended job waits for it.
    """

    keeper_id: str
    acked_cmd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperSilent:
    """Fact: the keeper has not called for ``silentAfter``. Its trials are UNKNOWN until it calls again."""

    keeper_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperHeard:
    """Fact: a silent keeper has called again."""

    keeper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVanished:
    """Fact: a keeper's host, such as a pod, has ended, and the files on it are lost.

    Facts about the jobs that ran there follow, and then KeeperGone. ``reason``: a sentence.
    """

    keeper_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperGone:
    """Fact: the keeper's host, such as a pod, no longer exists.

    The host was created only for certain jobs, and these jobs had ended before.
    """

    keeper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAdded:
    """Fact: the machine is used from now on, or again after it was drained or removed.

    ``machine``: an item of ``machineList`` in normalized form, with references in place of secrets; None: the
    configuration already contains the machine.
    """

    keeper_id: str
    machine: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDrained:
    """Fact: no more jobs are placed on the machine. Jobs that run there continue to their end."""

    keeper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRemoved:
    """Fact: a user has ordered the removal of the machine. No more jobs are placed there.

    The machine's keeper exits after the last job. ``force``: stop the trials that still run there, and
    restart them on other machines.
    """

    keeper_id: str
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGone:
    """Fact: a removed machine is no longer used. It has no job of the experiment, and its keeper has ended.

    ``note``: a sentence about steps of the removal that failed. ``returns``: the machine was added again
    during the removal, and a new keeper is started there.
    """

    keeper_id: str
    note: str | None = None
    returns: bool = False


MachineEvent = MachineAdded | MachineDrained | MachineRemoved | MachineGone

JobEvent = (
    JobPlaced
    | JobWaiting
    | JobStarted
    | MetricReported
    | FrameSkipped
    | ParametersWanted
    | CheckpointReported
    | CheckpointKeepBegun
    | CheckpointKept
    | CheckpointStored
    | CheckpointLost
    | CheckpointsPruned
    | CheckpointsDeleted
    | UpdateOrdered
    | SaveOrdered
    | StopOrdered
    | JobEnded
    | JobLost
    | JobNoted
    | MemberStarted
    | GangGathered
    | MembersStopped
    | MemberEnded
    | MemberLost
    | RoomForMembers
    | FewerMembersWanted
    | PreemptionWanted
    | KeeperEnrolled
    | KeeperBound
    | KeeperAcknowledged
    | KeeperSilent
    | KeeperHeard
    | HostVanished
    | KeeperGone
    | MachineEvent
)
