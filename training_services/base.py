"""The seam between the core and the platforms: its vocabulary, and one abstract class.

The job events below are facts of the core as they stand (``nnimgr.rules.facts`` imports them into its union).
A service never decides what runs; it places, starts, stops and tells what happened. It may be asked for the
same thing twice: everything is idempotent by job id.

Exceptions::

    ServiceError
    +-- JobRejected          the platform will never run this job: the trial fails
    +-- ServiceUnavailable   nothing can be placed at present: asked again after a while
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

SILENT_AFTER = timedelta(seconds=30)
TRIAL_GRACE = timedelta(seconds=5)  # between the signals that a trial is stopped with


class ServiceError(Exception):
    """The training service could not do what it was asked; the message is one sentence for the user."""


class JobRejected(ServiceError):
    """The platform will never run this job as it is."""


class ServiceUnavailable(ServiceError):
    """The platform cannot be used at present."""


class EndReason(StrEnum):
    """Why an attempt ended, as its keeper saw it."""

    EXITED = "exited"  # the command ended by itself or by a signal that was not ours
    STOPPED = "stopped"  # it ended after the keeper had signalled it because of a stop
    NEVER_STARTED = "never_started"  # a stop came first, or the command could not be executed
    LEASE = "lease"  # the host lost its server for longer than the lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a job runs. ``boot_id`` and ``instance`` fence it: on another boot or instance it is lost."""

    keeper_id: str
    instance: str
    boot_id: str
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlaced:
    """The job has a place and a start command with this number; the start leaves once this is committed."""

    job_id: str
    place: Place
    cmd_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWaiting:
    """The job waits for a place; ``reason`` is one sentence."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """The command of the attempt runs. ``started_at`` is the host's clock."""

    job_id: str
    started_at: datetime
    pid: int | None = None


class MetricReported(NamedTuple):
    """One metric frame. A named tuple: it is made up to 100,000 times a second.

    ``position`` is the frame's number in the attempt's metrics file, from 0. ``text`` is the JSON text of the
    value as the trial wrote it (may be NaN); ``value`` the number in it (``default`` of a mapping), None if
    there is none or it is not finite.
    """

    job_id: str
    position: int
    type: str  # "PERIODICAL" or "FINAL"
    sequence: int
    parameter_id: str | None  # the JSON text of the frame's parameter_id; None for null or missing
    value: float | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSkipped:
    """A frame that is no metric keeps its position; ``reason`` is one sentence shown on the trial."""

    job_id: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersWanted:
    """The trial asked for parameter set number ``index`` (NNI's REQUEST_PARAMETER frame)."""

    job_id: str
    position: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOrdered:
    """A further parameter set was ordered for a running job, under this command number."""

    job_id: str
    index: int
    cmd_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrdered:
    """The job's stop has this command number (None: it was not placed, nothing has to be sent)."""

    job_id: str
    cmd_seq: int | None
    grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """The attempt is sealed: nothing of it runs, its metrics are counted, and nothing will follow.

    ``metrics`` is the number of frames in its file; ``acked_cmd`` the highest command its keeper had applied;
    ``message`` one sentence when there is more to say than the exit code.
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
    """The end of a job that got no place and never will; ``message``: why, one sentence."""
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
    """The attempt is gone without an end of its own: what its host still says of it is too late.

    There is proof (another boot, a wiped directory, no pod, a lease that is over), or a user takes it on
    himself.
    """

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNoted:
    """Something about the job that the user should read: one sentence. Changes nothing."""

    job_id: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperEnrolled:
    """A keeper may speak with the token of this SHA-256 (hex). Committed before the keeper is started."""

    keeper_id: str
    token_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperBound:
    """The first sync of a keeper's directory (``instance``) or boot: from now on the token is bound to it."""

    keeper_id: str
    instance: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperAcknowledged:
    """The keeper has applied all commands up to ``acked_cmd`` (only sent when an ended job waits for it)."""

    keeper_id: str
    acked_cmd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperSilent:
    """No sync for ``silentAfter``: the keeper's trials are UNKNOWN until it speaks again."""

    keeper_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperHeard:
    """A silent keeper speaks again."""

    keeper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperGone:
    """The host of this keeper was made for some jobs and is no more: it will never be heard of again.

    Its jobs have ended before.
    """

    keeper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineAdded:
    """A machine is to be used from now on (again, if it was drained or removed).

    ``machine``: an item of ``machineList`` in canonical form, its secrets references; None: one that the
    configuration has.
    """

    keeper_id: str
    machine: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDrained:
    """Nothing more is placed on the machine; what runs there ends there."""

    keeper_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRemoved:
    """The machine is drained, and its keeper leaves then. ``force``: what runs there goes on elsewhere."""

    keeper_id: str
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGone:
    """A removed machine is used no longer: nothing of the experiment is placed there, its keeper was ended.

    ``note``: what could not be done there, as one sentence.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJobSpec:
    """One attempt at a trial, as the core wants it.

    ``parameter_text`` is the record that becomes ``parameter.cfg``, byte for byte. The last five fields are
    what the core has committed about the job already, for when it is submitted again after a restart.
    """

    id: str
    trial_id: str
    attempt: int
    sequence: int
    parameter_text: str
    place: JobPlaced | None = None
    stop: StopOrdered | None = None
    updates: tuple[tuple[UpdateOrdered, str], ...] = ()
    recorded: int = 0  # frames committed
    started: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeeper:
    """A keeper of an earlier start of this experiment's runner."""

    keeper_id: str
    token_sha256: str
    instance: str | None
    boot_id: str | None
    last_cmd: int  # the highest command number committed for its instance: of a job held, or acknowledged
    retired: tuple[str, ...] = ()  # its instances before that one: what they still say is too late
    silent: bool = False  # KeeperSilent is committed, and no KeeperHeard since


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMachine:
    """A machine that is not used as the configuration says. ``added``: as in MachineAdded."""

    keeper_id: str
    added: Mapping[str, Any] | None = None
    draining: bool = False
    removing: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeepers:
    """What ``open`` is told: the identity of the experiment's database, and the keepers that it knows."""

    db_id: str
    m_epoch: int
    keepers: tuple[KnownKeeper, ...] = ()
    machines: tuple[KnownMachine, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJobDetail:
    """A job as the platform knows it now."""

    job_id: str
    place: Place | None
    started: bool
    ended: bool


class TrialFile(NamedTuple):
    """A plain file that a trial has written. ``path``: below its attempt's folder, with slashes."""

    path: str
    size: int  # bytes
    modified_at: datetime  # the host's clock


@dataclass(frozen=True, slots=True)
class FileListing:
    """Files by path. ``complete``: these are all; a listing is bounded."""

    files: tuple[TrialFile, ...]
    complete: bool = True


class MachineStatus(StrEnum):
    """How a machine of an experiment is at present."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    DRAINING = "draining"  # nothing more is placed there
    REMOVING = "removing"  # nor will it be used again


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine of an experiment. What its keeper has not told (yet) is None.

    ``reason``: why it is not connected, one sentence, or what its keeper complains of; ``since``: of that.
    """

    keeper_id: str
    name: str
    address: str
    status: MachineStatus
    reason: str | None
    since: datetime | None
    job_ids: tuple[str, ...]
    cpus: float | None = None
    memory: int | None = None  # MiB
    disk: int | None = None  # MiB that were free when its keeper called first
    gpus: int | None = None
    version: str | None = None  # of its keeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a platform can do beside the contract."""

    updates: bool  # update_trial_job (NNI: isMultiPhaseJobSupported)
    machines: bool = False  # MachineAdded and the other facts of machines
    keeps_files: bool = False  # what ended jobs have written is kept in the experiment's own folder


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentContext:
    """What every service is told about its experiment. ``environ`` may hold secrets: never log it."""

    experiment_id: str
    directory: Path  # <experimentWorkingDirectory>/<id>
    trial_command: str
    trial_code_directory: Path
    trial_gpu_number: float | None
    python: str  # the interpreter of the user who created the experiment
    environ: Mapping[str, str] = field(repr=False)
    log_level: str = "info"
    silent_after: timedelta = SILENT_AFTER  # without a word from it a keeper counts as silent
    multi_phase: bool = False  # trials may ask for further parameter sets
    nni_manager_ip: str | None = None  # where keepers of other machines call the server, if it was given
    lease: timedelta | None = None  # so long what runs goes on without its server; None: for ever
    trial_cpu_number: float | None = None  # counted against what a machine has; None: not counted
    trial_memory_size: int | None = None  # MiB; likewise


class TrainingService(abc.ABC):
    """One platform serving one experiment.

    The four plain calls do no I/O: they queue, and answer with the fact to commit. A start or a stop leaves
    only after ``committed`` has been told of its fact. Events are ordered per job and come at least once; a
    batch that was taken but whose facts were not yet given to ``committed`` may come again after ``open``.
    """

    capabilities: Capabilities

    @abc.abstractmethod
    async def open(self, known: KnownKeepers) -> None:
        """Connect and check. Raises ServiceUnavailable; starts nothing that outlives a failure."""

    def adopted(self) -> None:
        """All jobs that are placed and have not ended have been submitted again since ``open``.

        Called once. Only now can reports be judged: before, a running job would be one that nobody knows.
        """
        return None

    @abc.abstractmethod
    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        """Queue the job. None: ``job.place`` is committed already (the job is adopted) or nothing is new.

        Raises JobRejected if the platform can never run it.
        """

    @abc.abstractmethod
    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        """Queue parameter set number ``index`` for a running job; None if the job is unknown or has ended.

        Number 0 is the one that it was started with.
        """

    @abc.abstractmethod
    def cancel_trial_job(self, job_id: str, *, grace: timedelta) -> StopOrdered | None:
        """Queue the stop of a job: SIGTERM, ``grace``, SIGKILL. None: unknown, ended or stopped already."""

    @abc.abstractmethod
    def committed(self, facts: Sequence[JobEvent]) -> None:
        """These facts are durable: starts and stops leave, keepers are acknowledged."""

    @abc.abstractmethod
    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        """The jobs that exist on the platform now."""

    @abc.abstractmethod
    def events(self) -> AsyncIterator[Sequence[JobEvent]]:
        """Batches of events, until the service is closed. One consumer."""

    @abc.abstractmethod
    def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        """Chunks of a file of the job: ``stdout``, ``stderr`` or ``trial.log``.

        ``tail``: only so many last lines of what is there now, the last of which need not be complete; what
        is before them is not read. With ``follow`` it goes on until the job has ended. ``keeper_id``: of its
        place, for a job that the service may have forgotten. Raises FileNotFoundError, ValueError (bad
        name), ServiceUnavailable (the host cannot be reached, or no more).
        """

    @abc.abstractmethod
    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        """What the job has written. ``keeper_id`` and what is raised: as for ``read_log``."""

    @abc.abstractmethod
    def read_file(self, job_id: str, path: str, *, keeper_id: str | None = None) -> AsyncIterator[bytes]:
        """Chunks of one of its files, as long as that is now.

        Neither links nor anything but plain files are read. ``keeper_id`` and what is raised: as for
        ``read_log``.
        """

    def machines(self) -> Sequence[Machine]:
        """The machines of the experiment, if the platform has any that it tells apart."""
        return ()

    def notices(self) -> Mapping[str, str]:
        """What is wrong with the platform at present, a sentence each under a name of what it is about."""
        return {}

    async def remove(self, *, only_look: bool = False) -> Sequence[str]:
        """Remove what the experiment has left on the platform, beside its folder. Only while it is not open.

        ``only_look``: see whether that can be done. Returns what stays there, a sentence each.
        """
        return ()

    @abc.abstractmethod
    async def close(self, *, detach: bool) -> Sequence[str]:
        """Let go. ``detach``: leave jobs and keepers running; else end the keepers (jobs ended before).

        Returns what could not be ended and may be left somewhere, a sentence each.
        """
