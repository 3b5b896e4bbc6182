"""Facts about jobs, keepers and machines that a training service reports to the core.

The core uses them unchanged (``nnimgr.rules.facts`` imports them into its union).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

__all__ = [
    "EndReason",
    "FrameSkipped",
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
    "MetricReported",
    "ParametersWanted",
    "Place",
    "StopOrdered",
    "UpdateOrdered",
    "never_started",
]


class EndReason(StrEnum):
    """Reason why an attempt ended, as its keeper saw it."""

    EXITED = "exited"  # the command ended by itself, or by a signal that did not come from the keeper
    STOPPED = "stopped"  # the command ended after the keeper had signaled it because of a stop order
    # a stop order came before the start, or the command could not be executed
    NEVER_STARTED = "never_started"
    LEASE = "lease"  # the host was without contact to the server for longer than the lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place where a job runs. If the host gets another ``boot_id`` or ``instance``, the job is lost."""

    keeper_id: str
    instance: str
    boot_id: str
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlaced:
    """Fact: the job has a place.

    The start order has the command number ``cmd_seq``, and is sent when this fact is committed.
    """

    job_id: str
    place: Place
    cmd_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWaiting:
    """Fact: the job waits for a place; ``reason`` is one sentence."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """Fact: the command of the attempt runs; ``started_at`` is by the host's clock."""

    job_id: str
    started_at: datetime
    pid: int | None = None


class MetricReported(NamedTuple):
    """Fact: the trial wrote one metric frame.

    The type is a named tuple because the server creates up to 100,000 of them per second. ``position`` is the
    frame's number in the attempt's metrics file, from 0. ``text`` is the JSON text of the value as the trial
    wrote it (it may be NaN). ``value`` is the number in the text (``default`` of a mapping), or None if there
    is no finite number.
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
    """Fact: a frame is not a metric. The frame is counted; ``reason`` is a sentence shown on the trial."""

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
    """Fact: a further parameter set was ordered for a running job.

    ``cmd_seq`` is the order's command number.
    """

    job_id: str
    index: int
    cmd_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrdered:
    """Fact: a stop was ordered for the job.

    Command number None: the job had no place, so no command is sent.
    """

    job_id: str
    cmd_seq: int | None
    grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """Fact: the attempt has ended.

    None of its processes run, all its metrics have been reported, and no event about it follows. ``metrics``:
    number of frames in its metrics file; ``acked_cmd``: highest command number that its keeper has carried
    out; ``message``: a sentence if there is more to report than the exit code.
    """

    job_id: str
    reason: EndReason
    exit_code: int | None
    signal: int | None
    metrics: int
    acked_cmd: int
    ended_at: datetime
    message: str | None = None


def never_started(job_id: str, message: str) -> JobEnded:
    """Return the end of a job that never got a place. ``message``: a sentence that says why."""
    return JobEnded(
        job_id=job_id,
        reason=EndReason.NEVER_STARTED,
        exit_code=None,
        signal=None,
        metrics=0,
        acked_cmd=0,
        ended_at=datetime.now(UTC),
        message=message,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLost:
    """Fact: the attempt was lost, and its end was never reported. Later reports about the attempt are
    ignored.

    Either the loss is proven (another boot, a deleted directory, no pod, an expired lease), or a user has
    declared the machine lost.
    """

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNoted:
    """Fact: a sentence about the job for the user. It does not change the job's state."""

    job_id: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperEnrolled:
    """Fact: a keeper may call with the token that has this SHA-256 (hex).

    The fact is committed before the keeper starts.
    """

    keeper_id: str
    token_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperBound:
    """Fact: a keeper's directory (``instance``) has called for the first time, or for the first time since
    a boot.

    From now on the keeper's token is valid only for this directory and boot.
    """

    keeper_id: str
    instance: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperAcknowledged:
    """Fact: the keeper has carried out all commands up to ``acked_cmd``.

    The fact is sent only if an ended job waits for it.
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
class KeeperGone:
    """Fact: the keeper's host was created only for certain jobs, and is gone for good.

    The jobs had ended before.
    """

    keeper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAdded:
    """Fact: the machine is used from now on, or again after it was drained or removed.

    ``machine``: an item of ``machineList`` in canonical form, with references in place of secrets; None: the
    machine is in the configuration.
    """

    keeper_id: str
    machine: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDrained:
    """Fact: no more jobs are placed on the machine; running jobs end there."""

    keeper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRemoved:
    """Fact: the machine is drained, and then its keeper exits.

    ``force``: requeue the trials that run there.
    """

    keeper_id: str
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGone:
    """Fact: a removed machine is no longer used. It has no job of the experiment, and its keeper has ended.

    ``note``: a sentence about steps of the removal that failed.
    """

    keeper_id: str
    note: str | None = None


MachineEvent = MachineAdded | MachineDrained | MachineRemoved | MachineGone

JobEvent = (
    JobPlaced
    | JobWaiting
    | JobStarted
    | MetricReported
    | FrameSkipped
    | ParametersWanted
    | UpdateOrdered
    | StopOrdered
    | JobEnded
    | JobLost
    | JobNoted
    | KeeperEnrolled
    | KeeperBound
    | KeeperAcknowledged
    | KeeperSilent
    | KeeperHeard
    | KeeperGone
    | MachineEvent
)
