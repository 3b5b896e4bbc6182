"""Records of a trial and its attempts in an experiment's state. ``nnimgr.rules.state`` re-exports them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from nnimgr.rules.facts import (
    Cause,
    EndReason,
    JobEnded,
    JobPlaced,
    KeptCopy,
    MemberEnded,
    MemberLost,
    Origin,
    PausedBy,
    Reuse,
    SaveOrdered,
    StopKind,
    StopOrdered,
    SuggestionSource,
    TrialStatus,
    UpdateOrdered,
)
from training_services.base import Place

__all__ = [
    "AddedTrial",
    "CheckpointState",
    "Growth",
    "JobState",
    "LeftCheckpoints",
    "MemberState",
    "NextLeg",
    "ParameterSet",
    "Resizing",
    "Seat",
    "TrialState",
    "next_attempt",
]


class AddedTrial(NamedTuple):
    """Customised trial that a user added by a request with an idempotency key.

    ``sha256``: hash of the parameters' text, to recognise a repeated request.
    """

    trial_id: str
    sequence: int
    sha256: str

    @classmethod
    def of(cls, trial_id: str, sequence: int, parameters: str) -> AddedTrial:
        return cls(trial_id, sequence, hashlib.sha256(parameters.encode()).hexdigest())


@dataclass(slots=True, kw_only=True)
class CheckpointState:
    """Checkpoint of a live trial, which a later attempt can continue from.

    ``origin``: the host that has the files, and the trial's progress up to the checkpoint. ``instance``: the
    life of the directory that has the files; "": the files are lost. ``kept``: the server's copy, or None.
    ``latest_value`` and ``latest_text``: the trial's latest
    intermediate result when the checkpoint was saved; ``final_value`` and
    ``final_text``: its final result, if it had reported one.
    """

    origin: Origin
    instance: str
    kept: KeptCopy | None = None
    size: int = 0
    latest_value: float | None = None
    latest_text: str | None = None
    final_value: float | None = None
    final_text: str | None = None


@dataclass(slots=True, kw_only=True)
class LeftCheckpoints:
    """Checkpoints that a job of an ended trial has left on its host. ``sizes``: number and bytes of each."""

    keeper_id: str
    instance: str
    sizes: list[tuple[int, int]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Return the bytes of all of them."""
        return sum(size for _, size in self.sizes)


@dataclass(slots=True, kw_only=True)
class NextLeg:
    """Leg that the scheduler has decided and that has not begun. ``cause``: see the fact Decided.

    ``checkpoint``: the checkpoint from which the trial will continue, with the trial's own frames counted.
    """

    cause: int
    checkpoint: CheckpointState
    parameters: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Resizing:
    """Other resources that the scheduler has decided for a trial. ``cause``: see the fact Decided.

    ``resources``: all resources that differ from the configuration.
    """

    cause: int
    resources: dict[str, float]
    reason: str


@dataclass(slots=True, kw_only=True)
class Growth:
    """Growth of a gang that has begun. ``saved``: the trial has saved its state since."""

    asked_at: datetime
    saved: bool = False


WELL = (EndReason.EXITED, 0)


@dataclass(slots=True, kw_only=True)
class MemberState:
    """Member of a gang's job. ``cmd_seq``, ``go``, ``stop``: numbers of the commands to start it, to run the
    trial's command, and to stop. ``dismissed``: its keeper acknowledges no more commands.
    """

    place: Place
    cmd_seq: int
    started_at: datetime | None = None  # by the host's clock
    pid: int | None = None
    go: int | None = None
    stop: int | None = None
    ended: MemberEnded | None = None
    lost: MemberLost | None = None
    dismissed: bool = False

    @property
    def over(self) -> bool:
        return self.ended is not None or self.lost is not None

    @property
    def failed(self) -> bool:
        """Return whether the member was lost, or has ended in another way than by itself with exit code 0."""
        end = self.ended
        return self.lost is not None or (end is not None and (end.reason, end.exit_code) != WELL)

    @property
    def last_cmd(self) -> int:
        return max(self.cmd_seq, self.go or 0, self.stop or 0)


class Seat(NamedTuple):
    """Place that a job, or a member of its gang, has or had. ``last_cmd``: number of the last command for it,
    which the keeper has to acknowledge. ``open``: it may run there, as far as is known.
    """

    place: Place
    last_cmd: int
    open: bool


@dataclass(slots=True, kw_only=True)
class JobState:
    """Job of an attempt.

    The state keeps the job until its keeper (the agent beside the trials) has acknowledged the last command
    for the job.
    """

    id: str
    trial_id: str
    attempt: int
    placed: JobPlaced | None = None
    members: list[MemberState] = field(default_factory=list)  # of a gang, the leader first; else empty
    gathered: bool = False  # True: the gang's members were told to run the command
    first: int | None = None  # number of the member that failed or was lost first, before any order to stop
    # when the gang's leader had ended well, before any failure or order to stop: the job has succeeded
    leader_done_at: datetime | None = None
    room: int | None = None  # number of members that the gang could have now; None: not known
    room_since: datetime | None = None
    growth: Growth | None = None  # of the gang, if it has begun
    leaving: tuple[int, ...] = ()  # members that the gang gives up, for trials that wait
    stays: bool = False  # True: the gang is not asked again to save its state for a growth
    waiting: str | None = None  # reason why the job has no place yet
    waits_since: datetime | None = None  # when it was first submitted without getting a place
    placed_at: datetime | None = None
    started_at: datetime | None = None  # by the host's clock
    pid: int | None = None
    stop: StopOrdered | None = None
    stop_at: datetime | None = None
    save: SaveOrdered | None = None  # the last order to save its state while it runs on
    updates: list[tuple[UpdateOrdered, str]] = field(default_factory=list)
    base: int = 0  # number of the job's first frame, above 0 if the job continues from a checkpoint
    recorded: int = 0  # number of frames that are committed, with those before ``base``
    left: bool = (
        False  # True: the trial has saved its state because it was asked to, and reported nothing since
    )
    ended: JobEnded | None = None
    lost: str | None = None
    unproven: bool = False  # True: the attempt counts as lost, but may still run
    cause: Cause | None = None  # of the attempt's failure or loss
    ended_at: datetime | None = None

    @property
    def size(self) -> int:
        """Return the number of members. A job without members counts as one."""
        return max(1, len(self.members))

    @property
    def closed(self) -> bool:
        return self.ended is not None or self.lost is not None

    @property
    def last_cmd(self) -> int:
        """Return the number of the job's last command, which the keeper has to acknowledge; 0 without a
        command.
        """
        last = self.placed.cmd_seq if self.placed else 0
        if self.stop is not None and self.stop.cmd_seq is not None:
            last = max(last, self.stop.cmd_seq)
        if self.save is not None and self.save.cmd_seq is not None:
            last = max(last, self.save.cmd_seq)
        return max([last, *(order.cmd_seq for order, _ in self.updates)])

    def seats(self) -> Iterator[Seat]:
        """Yield the job's place, or those of all members of a gang whose keepers still answer for them."""
        if self.placed is not None and not self.members:
            yield Seat(self.placed.place, self.last_cmd, not self.closed)
        for number, member in enumerate(self.members):
            if not member.dismissed:
                last = member.last_cmd if number else max(self.last_cmd, member.last_cmd)
                yield Seat(member.place, last, not self.closed and not member.over)


@dataclass(slots=True, kw_only=True)
class ParameterSet:
    """Parameter set of a multi-phase trial. ``parameters`` is None if the tuner had no more sets."""

    parameter_id: int | None
    parameters: str | None
    result: str | None = None  # JSON text of the value in the set's first FINAL metric


_CONTINUES = (
    StopKind.PAUSE,
    StopKind.LEG,
    StopKind.RESIZE,
    StopKind.GROW,
    StopKind.SHRINK,
    StopKind.PREEMPT,
)


@dataclass(slots=True, kw_only=True)
class TrialState:
    """Trial that has not ended. ``target``: kind of the required stop or pause; None: the trial runs to
    its end.
    """

    id: str
    sequence: int
    source: SuggestionSource
    parameter_id: int | None
    parameters: str
    created_at: datetime
    status: TrialStatus = TrialStatus.WAITING
    retry_of: str | None = None
    seed: int | None = None  # of a confirmation
    forked: bool = False  # True: it began with a checkpoint of another trial
    reuse: Reuse | None = None  # the trial gets this result and is not run
    attempt: int = 1  # number of the present attempt, or of the next
    # attempts up to this number may have run, although the database, an older copy, has no facts about them
    forgotten: int = 0
    due_at: datetime | None = None
    again: str | None = None  # why there is another attempt after the previous one
    lost_attempts: int = 0
    failed_attempts: int = 0
    memory_attempts: int = 0  # retries after a lack of memory, unless they count as failed attempts
    preempted_attempts: int = 0
    job_id: str | None = None  # job of the open attempt
    closed_job: str | None = None  # job of an ended attempt, until the next step is decided
    target: StopKind | None = None
    target_reason: str = ""
    # the experiment for which the last attempt was stopped, until the next one gets a place
    preempted_by: str | None = None
    # True: the last attempt was stopped for other members, and the next one has no place yet
    is_reshaping: bool = False
    seats: tuple[str, ...] = ()  # keepers where members of the last attempt may continue, in their order
    most_members: int | None = None  # largest number of members of the attempt; None: as configured
    running_since: datetime | None = None  # start by the server's clock, for maxTrialDuration
    ran: timedelta = timedelta(0)  # running time of the attempts from which the present one continues
    unknown_since: datetime | None = None
    slot_lent: bool = False  # another trial uses the slot until this trial's host answers
    superseded: bool = False  # True: not started yet, and suggested from a replaced search space
    save_wanted: bool = False  # True: a user wants it to save its state, and the order was not sent yet
    declared_lost: bool = False  # True: a user declared the attempt lost while the host is silent
    checkpoints: list[CheckpointState] = field(default_factory=list)  # oldest first; see rules.checkpoints
    origin: CheckpointState | None = None  # the attempt that is due or open continues from it
    keeping: Origin | None = None  # the checkpoint that is being copied to the server
    pruned: list[Origin] = field(default_factory=list)  # no longer needed, and not deleted yet
    held: int = 0  # bytes of the checkpoints on hosts, as counted in the state; see rules.checkpoint_limit
    stranded: bool = False  # True: the origin's host has become unusable before the attempt got its place
    parked: bool = False  # True: paused by a stop of the experiment, until its resume
    paused_by: PausedBy = PausedBy.USER  # who wants the pause, if there is one
    decided: int = 0  # number of the fact that led to the scheduler's latest decision about the trial
    leg: int = 0  # number of the trial's stretch with one parameter set and one beginning
    next_leg: NextLeg | None = None
    resources: dict[str, float] = field(default_factory=dict)  # those that differ from the configuration
    next_resources: Resizing | None = None  # for the next attempt
    # the resources before the present ones, until an attempt has started with the present ones
    previous_resources: Resizing | None = None
    frames: int = 0  # number of frames of the ended attempts that led to the trial's present state
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str | None = None
    note: str | None = None
    final_value: float | None = None
    final_text: str | None = None
    latest_value: float | None = None
    latest_text: str | None = None
    intermediates: int = 0
    parameter_sets: int = 1  # number of sets handed to the attempt (multi-phase trials get more)
    sets: list[ParameterSet] = field(
        default_factory=list
    )  # all sets of a multi-phase trial, including its first
    wants: list[int] = field(default_factory=list)  # numbers of sets that the attempt waits for
    untold: list[int] = field(default_factory=list)  # numbers of sets with a result for the tuner

    @property
    def title(self) -> str:
        """Number and id of the trial, for sentences: "12 (k3x9z)"."""
        return f"{self.sequence} ({self.id})"

    @property
    def is_to_end(self) -> bool:
        """Return whether the trial is to end. A pause, the next leg, other resources, other members or a
        preemption only end its attempt.
        """
        return self.target is not None and self.target not in _CONTINUES


def next_attempt(trial: TrialState) -> int:
    """Return the number for the trial's next attempt.

    No attempt has had this number, not even one whose facts are missing because the database was
    replaced by an older copy.
    """
    return max(trial.attempt, trial.forgotten) + 1
