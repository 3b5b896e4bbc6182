"""The state of an experiment, and how each fact changes it. Pure: no clock, no I/O, no random draw.

Only live trials are held; an ended one leaves with the turn that ended it (``take_touched``), and then
lives in the database alone. Fields with ``compare=False`` are derived from the others: ``index``
rebuilds them after a snapshot, and ``nnimgr.rules.validate`` checks them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from nnimgr.goal import optimize_mode
from nnimgr.objectives import objectives_of
from nnimgr.rules.facts import (
    DrainReason,
    ExperimentStatus,
    JobEnded,
    JobPlaced,
    Limits,
    Reuse,
    StopKind,
    StopOrdered,
    SuggestionSource,
    TrialStatus,
    UpdateOrdered,
)

ATTEMPTS_OF_AN_EPOCH = 1000  # more than a trial has while a runner has the experiment
SNAPSHOT_VERSION = 4  # raised when content or meaning changes: other snapshots are rebuilt from the log


def job_id_of(experiment_id: str, trial_id: str, attempt: int) -> str:
    return f"{experiment_id}-{trial_id}-{attempt}"


def trial_of_job(job_id: str) -> tuple[str, int]:
    """(trial_id, attempt) of a job id."""
    _, trial_id, attempt = job_id.rsplit("-", 2)
    return trial_id, int(attempt)


class AddedTrial(NamedTuple):
    """A customised trial whose request had an idempotency key. ``sha256``: of its parameters' text."""

    trial_id: str
    sequence: int
    sha256: str

    @classmethod
    def of(cls, trial_id: str, sequence: int, parameters: str) -> AddedTrial:
        return cls(trial_id, sequence, hashlib.sha256(parameters.encode()).hexdigest())


@dataclass(slots=True, kw_only=True)
class JobState:
    """One attempt, from its submission until its keeper has acknowledged its last command."""

    id: str
    trial_id: str
    attempt: int
    placed: JobPlaced | None = None
    waiting: str | None = None  # why it has no place
    placed_at: datetime | None = None
    started_at: datetime | None = None  # the host's clock
    pid: int | None = None
    stop: StopOrdered | None = None
    stop_at: datetime | None = None
    updates: list[tuple[UpdateOrdered, str]] = field(default_factory=list)
    recorded: int = 0  # frames committed
    ended: JobEnded | None = None
    lost: str | None = None
    ended_at: datetime | None = None

    @property
    def closed(self) -> bool:
        return self.ended is not None or self.lost is not None

    @property
    def last_cmd(self) -> int:
        """The highest command number that its keeper has to acknowledge; 0: none."""
        last = self.placed.cmd_seq if self.placed else 0
        if self.stop is not None and self.stop.cmd_seq is not None:
            last = max(last, self.stop.cmd_seq)
        return max([last, *(order.cmd_seq for order, _ in self.updates)])


@dataclass(slots=True, kw_only=True)
class ParameterSet:
    """One of the parameter sets of a multi-phase trial. ``parameters`` None: the tuner had no more."""

    parameter_id: int | None
    parameters: str | None
    result: str | None = None  # JSON text of its first FINAL metric's value


@dataclass(slots=True, kw_only=True)
class TrialState:
    """A live trial. ``target`` None: it shall run to its end."""

    id: str
    sequence: int
    source: SuggestionSource
    parameter_id: int | None
    parameters: str
    created_at: datetime
    status: TrialStatus = TrialStatus.WAITING
    retry_of: str | None = None
    reuse: Reuse | None = None  # it ends with this result, without being run
    attempt: int = 1  # the one that is due or under way
    forgotten: int = 0  # attempts with numbers up to this one may have run that the database has forgotten
    due_at: datetime | None = None
    lost_attempts: int = 0
    failed_attempts: int = 0
    job_id: str | None = None  # of the open attempt
    closed_job: str | None = None  # its attempt has ended and nothing was decided yet
    target: StopKind | None = None
    target_reason: str = ""
    running_since: datetime | None = None  # the server's clock; for maxTrialDuration
    unknown_since: datetime | None = None
    slot_lent: bool = False  # to another trial, until its host speaks again
    declared_lost: bool = False  # by a user, while its host is silent
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str | None = None
    note: str | None = None
    final_value: float | None = None
    final_text: str | None = None
    latest_value: float | None = None
    latest_text: str | None = None
    intermediates: int = 0
    parameter_sets: int = 1  # handed out to the attempt (multi-phase trials get more)
    sets: list[ParameterSet] = field(
        default_factory=list
    )  # of a multi-phase trial: all, its first among them
    wants: list[int] = field(default_factory=list)  # numbers of sets that the attempt asked for and waits for
    untold: list[int] = field(default_factory=list)  # numbers of sets whose results are not taken yet


@dataclass(slots=True, kw_only=True)
class KeeperState:
    token_sha256: str
    instance: str | None = None
    retired: list[str] = field(default_factory=list)  # instances that were replaced
    boot_id: str | None = None
    acked_cmd: int = 0
    silent: str | None = None  # since it stopped speaking: the sentence


@dataclass(slots=True, kw_only=True)
class MachineState:
    """A machine that was added, drained or removed while the experiment ran."""

    added: Mapping[str, Any] | None = None  # an item of machineList; None: it is of the configuration
    draining: bool = False
    removing: bool = False
    forced: bool = False  # what runs there goes on elsewhere
    gone: bool = False


@dataclass(slots=True, kw_only=True)
class Interrupted:
    """A trial that a stop of the experiment cut off: run again as a new trial when it is resumed."""

    trial_id: str
    sequence: int
    source: SuggestionSource
    parameter_id: int | None
    parameters: str


@dataclass(slots=True, kw_only=True)
class Best:
    trial_id: str
    sequence: int
    value: float


@dataclass(slots=True)
class Touched:
    """What the facts of one turn have changed: the rows to write."""

    trials: dict[str, TrialState] = field(default_factory=dict)
    jobs: dict[str, JobState] = field(default_factory=dict)
    keepers: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)  # sentences on trials that have ended before


@dataclass(slots=True, kw_only=True)
class ExperimentState:
    """One experiment. Empty until ExperimentCreated is applied."""

    id: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    search_space: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: Limits(trial_concurrency=1))
    status: ExperimentStatus = ExperimentStatus.INITIALIZED
    drain: DrainReason | None = None
    reason: str = "has been created"
    created_at: datetime | None = None
    ended_at: datetime | None = None
    active: timedelta = timedelta(0)  # time it was running, up to active_since
    active_since: datetime | None = None
    number: int = 0  # of the last fact
    last_at: datetime | None = None
    m_epoch: int = 0
    opened_at: datetime | None = None  # by the runner of now
    next_sequence: int = 0
    next_parameter_id: int = 0
    exhausted: bool = False
    space_number: int = 0  # of the fact that has replaced the search space last
    tuner_number: int = 0  # of the fact that has replaced the tuner last
    stop_requested: bool = False
    stop_requested_at: datetime | None = None
    detached: bool = False
    failed: str | None = None  # the sentence that makes it ERROR
    crashes: dict[str, int] = field(default_factory=dict)  # role -> in a row
    best: Best | None = None
    worst: float | None = None  # result of a trial that succeeded
    worst_of: dict[str, float] = field(default_factory=dict)  # the same by objective, where there are any
    fruitless: int = 0  # trials in a row that have ended without a result that counts
    fruitless_since: str = ""  # the first of them, and its reason
    missing: int = 0  # facts that were lost with a database that was replaced by an older one
    reruns: int = 0  # trials that have taken the place of failed ones
    counts: dict[str, int] = field(default_factory=dict)  # TrialStatus -> all trials ever
    trials: dict[str, TrialState] = field(default_factory=dict)
    jobs: dict[str, JobState] = field(default_factory=dict)
    keepers: dict[str, KeeperState] = field(default_factory=dict)
    machines: dict[str, MachineState] = field(default_factory=dict)  # by keeper
    interrupted: list[Interrupted] = field(default_factory=list)
    added: dict[str, AddedTrial] = field(default_factory=dict)  # by the newest idempotency keys

    # derived
    queued: dict[str, None] = field(default_factory=dict, compare=False)  # wait for a slot, in order
    retrying: dict[str, None] = field(default_factory=dict, compare=False)  # those of them with a due_at
    unsettled: dict[str, None] = field(default_factory=dict, compare=False)  # see is_unsettled
    condemned: dict[str, None] = field(default_factory=dict, compare=False)  # target set, act due
    running: dict[str, None] = field(default_factory=dict, compare=False)  # have started, oldest first
    unknown: dict[str, None] = field(default_factory=dict, compare=False)  # UNKNOWN, oldest first
    lent: dict[str, None] = field(default_factory=dict, compare=False)  # those whose slots are others' now
    wanting: dict[str, None] = field(default_factory=dict, compare=False)  # wait for parameter sets
    reported: dict[str, None] = field(default_factory=dict, compare=False)  # have results to be taken
    superseded: dict[str, None] = field(default_factory=dict, compare=False)  # of an older search space
    open_jobs: int = field(default=0, compare=False)
    closing_jobs: dict[str, None] = field(default_factory=dict, compare=False)  # closed, not acknowledged
    touched: Touched = field(default_factory=Touched, compare=False)

    @property
    def minimises(self) -> bool:
        return optimize_mode(self.config) == "minimize"

    @property
    def objectives(self) -> dict[str, str]:
        """Names with what is best, the main one first; empty: results are one number."""
        return objectives_of(self.config)

    @property
    def trial_command(self) -> str:
        """What trials run: the training service's own command if it names one."""
        service = self.config.get("trainingService")
        own = service.get("trialCommand") if isinstance(service, Mapping) else None  # not one of several
        return str(own or self.config.get("trialCommand", ""))

    @property
    def counted(self) -> int:
        """Trials that count towards maxTrialNumber: not those the system cancelled or that were run again."""
        return sum(self.counts.values()) - self.counts.get(TrialStatus.SYS_CANCELED, 0) - self.reruns

    @property
    def budget(self) -> int | None:
        """Trials that may still be created; None: unlimited."""
        limit = self.limits.max_trial_number
        return None if limit is None else max(0, limit - self.counted)

    @property
    def forsaken(self) -> list[str]:
        """The keepers of machines that are removed by force and are not gone yet."""
        return [name for name, machine in self.machines.items() if machine.forced and not machine.gone]

    def active_for(self, now: datetime) -> timedelta:
        """How long the experiment has been running."""
        return self.active + (now - self.active_since if self.active_since else timedelta(0))

    @property
    def over(self) -> bool:
        """Nothing is left to wait for: what closed jobs have left on silent hosts ends when those speak."""
        return not self.trials and all(
            job.closed and job.placed is not None and self.keepers[job.placed.place.keeper_id].silent
            for job in self.jobs.values()
        )

    def take_touched(self) -> Touched:
        touched, self.touched = self.touched, Touched()
        return touched

    def index(self) -> None:
        """Rebuild the derived fields."""
        self.queued = {t.id: None for t in self.trials.values() if is_queued(t)}
        self.retrying = {t.id: None for t in self.trials.values() if is_queued(t) and t.due_at}
        self.unsettled = {t.id: None for t in self.trials.values() if is_unsettled(t)}
        self.condemned = {t.id: None for t in self.trials.values() if is_condemned(self, t)}
        self.running = {
            t.id: None
            for t in sorted(self.trials.values(), key=lambda t: t.running_since or t.created_at)
            if t.running_since is not None
        }
        self.unknown = {
            t.id: None
            for t in sorted(self.trials.values(), key=lambda t: t.unknown_since or t.created_at)
            if t.unknown_since is not None
        }
        self.lent = {t.id: None for t in self.trials.values() if t.slot_lent}
        self.wanting = {t.id: None for t in self.trials.values() if t.wants}
        self.reported = {t.id: None for t in self.trials.values() if t.untold}
        self.superseded = {}
        self.open_jobs = sum(not job.closed for job in self.jobs.values())
        self.closing_jobs = {job.id: None for job in self.jobs.values() if job.closed}
        self.touched = Touched()


def is_queued(trial: TrialState) -> bool:
    waits = trial.status is TrialStatus.WAITING and trial.reuse is None
    return waits and trial.job_id is None and trial.closed_job is None


def next_attempt(trial: TrialState) -> int:
    """Return the number of the trial's next attempt: one that no attempt has had, forgotten or not."""
    return max(trial.attempt, trial.forgotten) + 1


def is_unsettled(trial: TrialState) -> bool:
    """The plan has to decide what becomes of it: it is not run, its attempt has closed, its pause is over."""
    if trial.closed_job is not None or (trial.reuse is not None and trial.status is TrialStatus.WAITING):
        return True
    return trial.status is TrialStatus.PAUSED and trial.target is None


def is_condemned(state: ExperimentState, trial: TrialState) -> bool:
    """Its target is a stop, or a user has declared it lost, and nothing was done about it yet."""
    if trial.declared_lost and trial.job_id is not None:
        return state.jobs[trial.job_id].stop is None
    if trial.target is None or trial.closed_job is not None or trial.status.terminal:
        return False
    if trial.job_id is None:
        return trial.status is not TrialStatus.PAUSED or trial.target is not StopKind.PAUSE
    return state.jobs[trial.job_id].stop is None


def trial_id_of(experiment_id: str, sequence: int) -> str:
    """The id of trial number ``sequence``: a letter and at least four of [a-z0-9].

    A bijection keyed by the experiment (an affine map modulo the number of ids of that length), so ids are
    unique by construction and need no memory.
    """
    digits, size, start = 4, 26 * 36**4, 0
    while sequence - start >= size:
        start += size
        digits += 1
        size = 26 * 36**digits
    key = int.from_bytes(experiment_id.encode(), "big")
    # coprime to 2, 3 and 13, the prime factors of every size
    factor = 2 * 3 * 13 * (key % 104_729 + 7_919) + 1
    at = ((sequence - start) * factor + key) % size
    tail = []
    for _ in range(digits):
        at, digit = divmod(at, 36)
        tail.append("0123456789abcdefghijklmnopqrstuvwxyz"[digit])
    return "abcdefghijklmnopqrstuvwxyz"[at] + "".join(tail)
