"""State of an experiment, and the records in it. Pure: no clock, no I/O, no random numbers.

The state holds only trials that have not ended. After the turn in which a trial ended (``take_touched``), the
trial is only in the database. Fields with ``compare=False`` are derived from the other fields by
``nnimgr.rules.indexes``, which also rebuilds these fields after a snapshot was loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from nnimgr.objectives import objectives_of
from nnimgr.rules.facts import (
    CheckpointsPruned,
    DrainReason,
    ExperimentStatus,
    Limits,
    Role,
    SuggestionSource,
    TrialStatus,
    TunerTraits,
)
from nnimgr.rules.phrases import left_out
from nnimgr.rules.trial_state import AddedTrial as AddedTrial
from nnimgr.rules.trial_state import CheckpointState as CheckpointState
from nnimgr.rules.trial_state import Growth as Growth
from nnimgr.rules.trial_state import JobState as JobState
from nnimgr.rules.trial_state import LeftCheckpoints as LeftCheckpoints
from nnimgr.rules.trial_state import MemberState as MemberState
from nnimgr.rules.trial_state import NextLeg as NextLeg
from nnimgr.rules.trial_state import ParameterSet as ParameterSet
from nnimgr.rules.trial_state import Resizing as Resizing
from nnimgr.rules.trial_state import TrialState as TrialState
from nnimgr.rules.trial_state import next_attempt as next_attempt
from training_services.base import job_id_of as job_id_of
from training_services.base import trial_of_job as trial_of_job

FIVE_CHARACTERS = 26 * 36**4  # number of trial ids with five characters
ATTEMPTS_OF_AN_EPOCH = 1000  # more attempts than a trial can have while one runner holds the experiment
SNAPSHOT_VERSION = 15  # increased with each change of the state's fields; older snapshots are not loaded


@dataclass(slots=True, kw_only=True)
class KeeperState:
    token_sha256: str
    instance: str | None = None
    retired: list[str] = field(default_factory=list)  # previous instances
    boot_id: str | None = None
    acked_cmd: int = 0
    silent: str | None = None  # sentence that explains the silence; None: not silent
    vanished: bool = False  # True: the host has ended, with all files on it
    prunes: int = 0  # number of the facts CheckpointsPruned about it
    # job -> what the keeper may not have deleted yet, and the number of the last fact about it
    unpruned: dict[str, tuple[int, CheckpointsPruned]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class MachineState:
    """Machine that was added, drained or removed while the experiment ran."""

    added: Mapping[str, Any] | None = None  # item of machineList; None if the configuration names the machine
    draining: bool = False
    removing: bool = False
    forced: bool = False  # True: trials of this machine are restarted on other machines
    gone: bool = False


@dataclass(slots=True, kw_only=True)
class Interrupted:
    """Trial that a stop of the experiment interrupted. A resume restarts it as a new trial."""

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


class Leader(NamedTuple):
    """One of the best trials, which are confirmed when the search has ended. ``parameters``: JSON text."""

    trial_id: str
    value: float
    parameters: str


class Improvement(NamedTuple):
    """Result that was better than all before. ``finished``: number of trials that had finished with it."""

    finished: int
    value: float


@dataclass(slots=True)
class Touched:
    """Trials, jobs and keepers that the facts of one turn have changed. Their rows in the database must be
    written.
    """

    trials: dict[str, TrialState] = field(default_factory=dict)
    jobs: dict[str, JobState] = field(default_factory=dict)
    keepers: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)  # notes on trials that had already ended


@dataclass(slots=True, kw_only=True)
class ExperimentState:
    """State of one experiment, which is empty until ExperimentCreated is applied."""

    id: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    search_space: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: Limits(trial_concurrency=1))
    traits: TunerTraits = field(default_factory=TunerTraits)
    ids_from: int = 0  # number of the first trial's id in the sequence of ids
    status: ExperimentStatus = ExperimentStatus.INITIALIZED
    drain: DrainReason | None = None
    reason: str = "has been created"
    created_at: datetime | None = None
    ended_at: datetime | None = None
    active: timedelta = timedelta(0)  # time in which the experiment ran, up to active_since
    active_since: datetime | None = None
    number: int = 0  # number of the last fact
    last_at: datetime | None = None
    m_epoch: int = 0
    opened_at: datetime | None = None  # time when the current runner opened the experiment
    next_sequence: int = 0
    next_parameter_id: int = 0
    exhausted: bool = False  # the tuner had no more parameter sets when it was last asked
    asks_again: bool = False  # a trial has ended since then, so the tuner is asked again
    space_number: int = 0  # number of the last fact that replaced the search space
    tuner_number: int = 0  # number of the last fact that replaced the tuner
    stop_requested: bool = False
    stop_requested_at: datetime | None = None
    stop_saves: bool = False  # trials save their state before the stop ends them
    detached: bool = False
    failed: str | None = None  # sentence that explains why the experiment ends with ERROR
    crashes: dict[Role, int] = field(default_factory=dict)  # number of consecutive failures
    best: Best | None = None
    worst: float | None = None  # worst result of a trial that succeeded
    worst_of: dict[str, float] = field(default_factory=dict)  # worst value of each objective
    fruitless: int = 0  # number of consecutive trials that ended without a usable result
    fruitless_since: str = ""  # first of these consecutive trials, and its reason
    resumed: bool = False  # a user has resumed the experiment at least once
    # number of first trials since the start or the last resume, if all failed alike; None: another end
    first_failures: int | None = 0
    first_failure: str = ""  # failure of the first trials, as in TrialEnded.failure
    first_failure_reason: str = ""
    finished: int = 0  # number of trials that ended SUCCEEDED or EARLY_STOPPED, for the plateau of stopWhen
    # the newest improvements of the best result, oldest first, as far as the plateau of stopWhen needs them
    improvements: list[Improvement] = field(default_factory=list)
    # the best trials with different parameters, best first, as many as confirmBest confirms
    leaders: list[Leader] = field(default_factory=list)
    # confirmed trial -> seeds of its confirmations, except those that the system has canceled
    confirmations: dict[str, list[int]] = field(default_factory=dict)
    failures: int = 0  # number of consecutive trials that failed
    latest_failure: str = ""  # trial and reason of the latest of them
    trial_time: timedelta = timedelta(0)  # running time of all attempts, up to trial_time_at
    trial_time_at: datetime | None = None
    missing: int = 0  # number of facts that were lost when the database was replaced by an older one
    reruns: int = 0  # number of trials that replace failed trials
    counts: dict[TrialStatus, int] = field(default_factory=dict)  # number of all trials ever, by status
    trials: dict[str, TrialState] = field(default_factory=dict)
    jobs: dict[str, JobState] = field(default_factory=dict)
    keepers: dict[str, KeeperState] = field(default_factory=dict)
    machines: dict[str, MachineState] = field(default_factory=dict)  # by keeper id
    interrupted: list[Interrupted] = field(default_factory=list)
    added: dict[str, AddedTrial] = field(default_factory=dict)  # by idempotency key, the newest keys only
    # checkpoints of which the server has copies: job -> their numbers
    copies: dict[str, list[int]] = field(default_factory=dict)
    # those of these checkpoints that the storage has, too: job -> their numbers
    stored: dict[str, list[int]] = field(default_factory=dict)
    # jobs of ended trials whose copies are to be deleted, once no other trial and no user needs them
    unneeded_copies: dict[str, None] = field(default_factory=dict)
    # checkpoints that users have pinned, by the trial that has saved them, which may have ended
    pins: dict[str, list[CheckpointState]] = field(default_factory=dict)
    # only with a limit of their bytes: checkpoints of ended trials on hosts, by job, those that ended first
    # before all others; and the bytes of these and of the live trials' checkpoints
    left: dict[str, LeftCheckpoints] = field(default_factory=dict)
    held: int = 0

    # Derived from the fields above: sets of trial ids, except closing_jobs, which is a set of job ids.
    queued: dict[str, None] = field(default_factory=dict, compare=False)  # waiting for a slot, in order
    retrying: dict[str, None] = field(default_factory=dict, compare=False)  # queued trials with a due_at
    unsettled: dict[str, None] = field(default_factory=dict, compare=False)  # next step not decided yet
    condemned: dict[str, None] = field(default_factory=dict, compare=False)  # to be stopped, no stop ordered
    running: dict[str, None] = field(default_factory=dict, compare=False)  # started trials, oldest first
    continued: dict[str, None] = field(default_factory=dict, compare=False)  # started from a checkpoint
    paused: dict[str, None] = field(default_factory=dict, compare=False)
    confirming: dict[str, None] = field(default_factory=dict, compare=False)  # confirmations
    stranded: dict[str, None] = field(default_factory=dict, compare=False)  # to start from another checkpoint
    hoarding: dict[str, None] = field(default_factory=dict, compare=False)  # with checkpoints to delete
    borrowing: dict[str, None] = field(default_factory=dict, compare=False)  # continue from other trials'
    saving: dict[str, None] = field(default_factory=dict, compare=False)  # to be asked to save their state
    unknown: dict[str, None] = field(default_factory=dict, compare=False)  # UNKNOWN, oldest first
    lent: dict[str, None] = field(default_factory=dict, compare=False)  # slot lent to another trial
    wanting: dict[str, None] = field(default_factory=dict, compare=False)  # waiting for parameter sets
    reported: dict[str, None] = field(default_factory=dict, compare=False)  # with new results of sets
    superseded: dict[str, None] = field(default_factory=dict, compare=False)  # to be canceled
    gangs: dict[str, None] = field(default_factory=dict, compare=False)  # something follows from members
    growable: dict[str, None] = field(default_factory=dict, compare=False)  # could have more members
    growing: dict[str, None] = field(default_factory=dict, compare=False)  # asked to save, to have more
    closing_jobs: dict[str, None] = field(default_factory=dict, compare=False)  # closed, not acknowledged
    touched: Touched = field(default_factory=Touched, compare=False)

    @property
    def minimises(self) -> bool:
        """Return whether the smallest result is the best, by the main objective or else by the tuner."""
        for mode in self.objectives.values():
            return mode == "minimize"
        return self.traits.minimises

    @property
    def objectives(self) -> dict[str, str]:
        """Return name -> "maximize" or "minimize" of each objective, the main objective first; empty
        without objectives.
        """
        return objectives_of(self.config)

    @property
    def asked(self) -> bool:
        """Return whether programs ask for the trials and run them (platform ``ask``)."""
        service = self.config.get("trainingService")
        return isinstance(service, Mapping) and service.get("platform") == "ask"

    @property
    def trial_command(self) -> str:
        """Return the command that trials run. A trialCommand in the training service's configuration has
        priority.
        """
        service = self.config.get("trainingService")
        own = service.get("trialCommand") if isinstance(service, Mapping) else None  # else a list
        return str(own or self.config.get("trialCommand", ""))

    @property
    def counted(self) -> int:
        """Return the number of trials that count towards maxTrialNumber.

        Confirmations and trials that the system canceled do not count. A failed trial and its rerun count as
        one trial.
        """
        others = self.reruns + sum(map(len, self.confirmations.values()))
        return sum(self.counts.values()) - self.counts.get(TrialStatus.SYS_CANCELED, 0) - others

    @property
    def searching(self) -> int:
        """Return the number of unfinished trials that are not confirmations."""
        return len(self.trials) - len(self.confirming)

    @property
    def left_out(self) -> str:
        """Return which trials do not count towards maxTrialNumber, for the end of a phrase; "" if all
        count.
        """
        return left_out(retried=self.reruns, canceled=self.counts.get(TrialStatus.SYS_CANCELED, 0))

    @property
    def budget(self) -> int | None:
        """Return the number of trials that may still be created under maxTrialNumber; None without a
        limit.
        """
        limit = self.limits.max_trial_number
        return None if limit is None else max(0, limit - self.counted)

    @property
    def asks_exhausted(self) -> bool:
        """Return whether the tuner, which had no more parameter sets, is asked again."""
        return self.drain is DrainReason.TUNER and self.asks_again

    @property
    def open_jobs(self) -> int:
        """Return the number of attempts that were submitted and have not ended."""
        return len(self.jobs) - len(self.closing_jobs)

    def open_jobs_at(self, keeper_id: str) -> Iterator[JobState]:
        """Yield the jobs that have not ended on this keeper (the agent beside the trials)."""
        for job in self.jobs.values():
            if any(seat.open and seat.place.keeper_id == keeper_id for seat in job.seats()):
                yield job

    def is_acknowledged(self, job: JobState) -> bool:
        """Return whether the keepers have carried out all commands for the job, or never will."""
        return not any(True for _ in self.unacknowledged(job))

    def unacknowledged(self, job: JobState) -> Iterator[KeeperState]:
        """Yield the keepers that have to acknowledge commands for the job."""
        for place, last_cmd, _ in job.seats():
            keeper = self.keepers[place.keeper_id]
            if keeper.instance == place.instance and last_cmd > keeper.acked_cmd:
                yield keeper

    @property
    def free_slots(self) -> int:
        """Return the number of free slots. Each free slot allows one attempt to be submitted now.

        The number is negative while more attempts are open than the limit allows.
        """
        return self.limits.trial_concurrency - self.open_jobs + len(self.lent)

    @property
    def forsaken(self) -> list[str]:
        """Return the ids of keepers on machines that are being removed by force and are not gone yet."""
        return [name for name, machine in self.machines.items() if machine.forced and not machine.gone]

    def active_for(self, now: datetime) -> timedelta:
        """Return the total time that the experiment has been running up to ``now``."""
        return self.active + (now - self.active_since if self.active_since else timedelta(0))

    def trial_time_for(self, now: datetime) -> timedelta:
        """Return the running time of all attempts together, up to ``now``."""
        if self.trial_time_at is None:
            return self.trial_time
        return self.trial_time + self.trials_running * (now - self.trial_time_at)

    @property
    def trials_running(self) -> int:
        """Return the number of trials whose attempt was started and has not ended."""
        return len(self.running) + len(self.continued)

    @property
    def fails_fast(self) -> bool:
        """Return whether the first trials all failed alike, and their number has reached the limit
        failFast.
        """
        return 0 < self.limits.fail_fast <= (self.first_failures or 0)

    def last_commands(self) -> dict[str, int]:
        """Return the number of the last command that each keeper has got, or is to get, by keeper."""
        last = {keeper_id: keeper.acked_cmd for keeper_id, keeper in self.keepers.items()}
        for job in self.jobs.values():
            for place, last_cmd, _ in job.seats():
                last[place.keeper_id] = max(last.get(place.keeper_id, 0), last_cmd)
        return last

    @property
    def over(self) -> bool:
        """Return whether all trials have ended and no job is left to wait for.

        A job on a silent host does not count if it was given up. Its processes, if they still run, are ended
        when the host answers again.
        """
        return not self.unfinished and all(
            job.closed and job.placed is not None and all(each.silent for each in self.unacknowledged(job))
            for job in self.jobs.values()
        )

    @property
    def unfinished(self) -> int:
        """Return the number of trials that the experiment waits for before it ends.

        A stopped experiment does not wait for paused trials, which continue after its resume. An experiment
        that has created all its trials ends as DONE, even if the first ones have failed alike.
        """
        stops = self.stop_requested or (self.fails_fast and self.budget != 0)
        return len(self.trials) - (len(self.paused) if stops else 0)

    def trial_id(self, sequence: int) -> str:
        """Return the id for a new trial of the experiment with this number."""
        return trial_id_of(self.id, self.ids_from + sequence)

    def take_touched(self) -> Touched:
        touched, self.touched = self.touched, Touched()
        return touched


def trial_id_of(experiment_id: str, sequence: int) -> str:
    """Return the trial id at position ``sequence`` in the experiment's sequence of ids.

    An id is a letter and at least four characters of [a-z0-9]. It is computed from the number by an affine
    map modulo the number of ids of the same length, keyed by the experiment. So ids are unique by
    construction, and no list of used ids is needed.
    """
    digits, size, start = 4, FIVE_CHARACTERS, 0
    while sequence - start >= size:
        start += size
        digits += 1
        size = 26 * 36**digits
    key = int.from_bytes(experiment_id.encode(), "big")
    # The number of ids with the same number of characters has only the prime factors 2, 3 and 13. The factor
    # is coprime to these three.
    factor = 2 * 3 * 13 * (key % 104_729 + 7_919) + 1
    at = ((sequence - start) * factor + key) % size
    tail = []
    for _ in range(digits):
        at, digit = divmod(at, 36)
        tail.append("0123456789abcdefghijklmnopqrstuvwxyz"[digit])
    return "abcdefghijklmnopqrstuvwxyz"[at] + "".join(tail)
