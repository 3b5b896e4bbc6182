"""Interface between the core and the platforms: the types that both use, and one abstract class.

A training service imports everything that it needs from here; the events are defined in ``events.py``. A
service never decides which trials run: it places, starts and stops jobs, and reports what happened to them.
The core may repeat each request, so a method that is called twice for one job id has no second effect.

Exceptions::

    ServiceError
    +-- JobRejected          the platform will never run this job: the trial fails
    +-- ServiceUnavailable   nothing can be placed now: the core asks again later
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from training_services.events import (
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
    MachineAdded,
    MachineDrained,
    MachineEvent,
    MachineGone,
    MachineRemoved,
    MemberEnded,
    MemberLost,
    MemberPlace,
    MembersStopped,
    MemberStarted,
    MetricReported,
    ParametersWanted,
    Place,
    PreemptionWanted,
    RoomForMembers,
    SaveOrdered,
    StopOrdered,
    UpdateOrdered,
    never_started,
)
from training_services.job_ids import (
    experiment_of_job,
    job_id_of,
    job_of_member,
    member_id_of,
    trial_of_job,
)
from training_services.job_spec import (
    Gang,
    GangRole,
    KeptCopy,
    MemberProgress,
    Origin,
    OwnNeeds,
    TrialJobSpec,
    origin_id,
)
from training_services.known import KnownKeeper, KnownKeepers, KnownMachine

__all__ = [
    "Capabilities",
    "Cause",
    "CheckpointKeepBegun",
    "CheckpointKept",
    "CheckpointLost",
    "CheckpointReported",
    "CheckpointStored",
    "CheckpointsDeleted",
    "CheckpointsPruned",
    "EndReason",
    "ExperimentContext",
    "FileListing",
    "FewerMembersWanted",
    "FrameSkipped",
    "Gang",
    "GangRole",
    "GangGathered",
    "HostVanished",
    "JobEnded",
    "JobEvent",
    "JobLost",
    "JobNoted",
    "JobPlaced",
    "JobRejected",
    "JobStarted",
    "JobWaiting",
    "KeeperAcknowledged",
    "KeeperBound",
    "KeeperEnrolled",
    "KeeperGone",
    "KeeperHeard",
    "KeeperSilent",
    "KeptCopy",
    "KnownKeeper",
    "KnownKeepers",
    "KnownMachine",
    "Machine",
    "MachineAdded",
    "MachineDrained",
    "MachineEvent",
    "MachineGone",
    "MachineRemoved",
    "MachineStatus",
    "MemberEnded",
    "MemberLost",
    "MemberPlace",
    "MemberProgress",
    "MemberStarted",
    "MembersStopped",
    "MetricReported",
    "Origin",
    "OwnNeeds",
    "ParametersWanted",
    "Place",
    "PreemptionWanted",
    "RoomForMembers",
    "Preload",
    "SILENT_AFTER",
    "ServiceError",
    "ServiceUnavailable",
    "SaveOrdered",
    "StopOrdered",
    "TRIAL_GRACE",
    "TrainingService",
    "TrialFile",
    "TrialJobDetail",
    "TrialJobSpec",
    "UpdateOrdered",
    "experiment_of_job",
    "job_id_of",
    "job_of_member",
    "member_id_of",
    "memory_text",
    "never_started",
    "origin_id",
    "shown_bytes",
    "trial_of_job",
]

SILENT_AFTER = timedelta(seconds=30)
TRIAL_GRACE = timedelta(seconds=5)  # time between SIGTERM and SIGKILL when a trial is stopped


def shown_bytes(number: float) -> str:
    """Return a number of bytes as text with a unit, such as "1.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.3g} {unit}" if number < 1000 else f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def memory_text(mib: float) -> str:
    """Return an amount of memory as text for a sentence."""
    return f"{mib / 1024:.4g} GiB" if mib >= 1024 else f"{mib:g} MiB"


class ServiceError(Exception):
    """Error: the training service could not carry out a request. The message is a sentence for the user."""


class JobRejected(ServiceError):
    """Error: the platform will never run this job."""


class ServiceUnavailable(ServiceError):
    """Error: the platform cannot be used now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialJobDetail:
    """State of a job on the platform."""

    job_id: str
    place: Place | None
    started: bool
    ended: bool


class TrialFile(NamedTuple):
    """Regular file that a trial has written. ``path`` is relative to the attempt's folder."""

    path: str
    size: int  # bytes
    modified_at: datetime  # by the clock of the machine that has the file


@dataclass(frozen=True, slots=True)
class FileListing:
    """List of the files that an attempt has written. ``complete`` is False if there were too many to list."""

    files: tuple[TrialFile, ...]
    complete: bool = True


class MachineStatus(StrEnum):
    """Status of a machine of an experiment."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    DRAINING = "draining"  # no more jobs are placed there
    REMOVING = "removing"  # no more jobs are placed there; removed after its last job


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Machine of an experiment. Values that the machine's keeper has not reported are None.

    ``reason``: a sentence that says why the machine is not connected, or which problem its keeper reports.
    ``since``: time of the keeper's last call if the machine is not connected. ``ends_at``: time at which the
    engine ends it; None: it stays, or the time is not known. ``passing``: the platform has made it for
    trials, and ends it itself.
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
    disk: int | None = None  # free MiB on the machine's disk at its keeper's first call
    gpus: int | None = None
    version: str | None = None  # version of its keeper
    ends_at: datetime | None = None
    passing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Optional features of a training service, each with a flag that says whether it is supported."""

    updates: bool  # True: update_trial_job works (NNI: isMultiPhaseJobSupported)
    machines: bool = False  # True: the service accepts MachineAdded and the other facts about machines
    allocations: bool = False  # True: the service makes and ends its machines itself, for the jobs
    keeps_files: bool = False  # True: files of ended jobs are kept in the experiment's own folder
    checkpoints: bool = False  # True: an attempt can continue from a checkpoint of an earlier attempt
    gangs: bool = False  # True: a job can have members on several hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFolder:
    """Storage that all machines share: its mount points on the server's machine and on other machines."""

    local: str
    remote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preload:
    """Modules that a process on each host imports once. Trials are forked from it, and run the function or
    class ``target`` (FILE:NAME) in place of the command.

    ``resident``: the process of a trial runs further trials of the class.
    """

    modules: tuple[str, ...]
    target: str
    resident: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentContext:
    """Description of the experiment for which a training service runs jobs.

    ``environ`` is the creator's environment and may contain secrets: never log it. ``own_needs``: needs that
    differ from job to job, whose ``trial_`` fields are None. ``Wants`` combines both.
    """

    experiment_id: str
    directory: Path  # <experimentWorkingDirectory>/<id>
    trial_command: str
    trial_code_directory: Path
    trial_gpu_number: float | None
    python: str  # interpreter of the user who created the experiment
    environ: Mapping[str, str] = field(repr=False)
    log_level: str = "info"
    silent_after: timedelta = SILENT_AFTER  # time without a call after which a keeper counts as silent
    multi_phase: bool = False  # trials may ask for further parameter sets
    nni_manager_ip: str | None = None  # configured address where keepers of other machines call the server
    lease: timedelta | None = None  # time for which jobs continue without the server; None: forever
    trial_cpu_number: float | None = None  # subtracted from the machine's CPUs; None: not counted
    trial_memory_size: int | None = None  # MiB, subtracted from the machine's memory; None: not counted
    shared_folder: SharedFolder | None = None
    own_needs: OwnNeeds | None = None
    priority: int = 0  # jobs of an experiment with a higher priority get free resources first
    preemptible: bool = False  # running jobs may be stopped for waiting jobs of a higher priority
    preload: Preload | None = None
    gang: Gang | None = None  # None: the command runs once
    checkpoint_storage: str | None = None  # URL of a storage that gets the server's copies of checkpoints
    max_trial_duration: timedelta | None = None  # longest time that a trial may run; None: not limited
    # the platform, if the experiment has several: the names of its allocations begin with it; "": it has one
    one_of_several: str = ""


class TrainingService(abc.ABC):
    """Platform that runs the jobs of one experiment.

    ``submit_trial_job``, ``update_trial_job``, ``cancel_trial_job`` and ``committed`` do no I/O: the first
    three queue an order and return a fact for the core to commit. A start or a stop is sent only after its
    fact was passed to ``committed``. Events of one job are in order, and may be repeated. An event that the
    core took, but did not pass to ``committed``, may come again after the next ``open``.
    """

    capabilities: Capabilities

    @abc.abstractmethod
    async def open(self, known: KnownKeepers) -> None:
        """Connect to the platform and check that it can run jobs.

        If this raises ServiceUnavailable, no task or connection of the service is left open.
        """

    def adopted(self) -> None:
        """Begin to evaluate the keepers' reports.

        The core calls this once, after it has submitted all placed, unfinished jobs again. Before this call,
        the service may not know a running job yet.
        """
        return None

    @abc.abstractmethod
    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        """Queue the job, and return the fact that says where it was placed or why it waits.

        Return None if the core has already committed the job's place (the job is adopted), or if the job was
        submitted before. Raises JobRejected if the platform can never run the job.
        """

    @abc.abstractmethod
    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        """Queue parameter set number ``index`` for a running job, and return the fact to commit.

        Number 0 is the set with which the job was started. Return None if the job is unknown or has ended.
        """

    @abc.abstractmethod
    def cancel_trial_job(
        self, job_id: str, *, grace: timedelta, save_within: timedelta | None = None
    ) -> StopOrdered | None:
        """Queue the stop of a job, and return the fact to commit.

        The job gets SIGTERM, and SIGKILL after ``grace``. ``save_within``: longest wait before SIGTERM, in
        which the job is asked to save its state. Return None if the job is unknown, has ended, or was stopped
        before. Of a gang, this stops the leader: see ``stop_members``.
        """

    def save_trial_job(self, job_id: str, *, within: timedelta) -> SaveOrdered | None:
        """Queue a request to a running job to save its state while it runs on, and return the fact to commit.

        A job that has not answered after ``within`` gets a note. Return None if the job is unknown, has
        ended, or was stopped. A platform that cannot ask its jobs returns a fact without a ``cmd_seq``.
        """
        return SaveOrdered(job_id=job_id, cmd_seq=None, within=within)

    def gather(self, job_id: str) -> GangGathered | None:
        """Queue the orders by which the members of a gang, which have all started, run the trial's command.

        Return the fact to commit, or None if the job is unknown or has ended. Only a service with
        ``Capabilities.gangs`` gets such jobs.
        """
        raise NotImplementedError

    def stop_members(self, job_id: str, members: Sequence[int], *, grace: timedelta) -> MembersStopped | None:
        """Queue the stops of these members of a gang, and return the fact to commit.

        Return None if none of them is known and runs.
        """
        raise NotImplementedError

    def prioritise(self, priority: int) -> None:
        """Change the priority of the experiment's waiting jobs. A platform without priorities ignores it."""
        return None

    @abc.abstractmethod
    def committed(self, facts: Sequence[JobEvent]) -> None:
        """Take facts that the core has committed, and send the starts and stops that belong to them.

        Keepers whose reports are now committed get an acknowledgement.
        """

    @abc.abstractmethod
    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        """Return the jobs that exist on the platform now."""

    @abc.abstractmethod
    def events(self) -> AsyncIterator[Sequence[JobEvent]]:
        """Yield batches of events for the core until the service is closed. Only one caller may iterate."""

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
        """Yield the content of a job's log in chunks: ``stdout``, ``stderr`` or ``trial.log``.

        ``tail``: yield only this number of lines from the end; the last line may be incomplete. ``follow``:
        continue until the job has ended. ``keeper_id``: keeper that ran the job; it still finds the files of
        a job that the service has forgotten. Raises FileNotFoundError, ValueError (unknown log name) and
        ServiceUnavailable (the host cannot be reached, or no longer exists).
        """

    @abc.abstractmethod
    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        """Return the list of files that the job has written.

        ``keeper_id``: keeper that ran the job. Raises FileNotFoundError and ServiceUnavailable (the host
        cannot be reached, or no longer exists).
        """

    @abc.abstractmethod
    def read_file(self, job_id: str, path: str, *, keeper_id: str | None = None) -> AsyncIterator[bytes]:
        """Yield the content of one of the job's files in chunks, up to the file's current size.

        Only regular files are read, not links. ``keeper_id``: keeper that ran the job. Raises
        FileNotFoundError, ValueError (invalid path) and ServiceUnavailable (the host cannot be reached, or no
        longer exists).
        """

    def keep_checkpoint(self, trial_id: str, checkpoint: Origin | None) -> None:
        """Copy this checkpoint of the trial from its host to the server, unless that is not worth it.

        The core calls this after each commit that changes which checkpoint is to be copied, and for each
        trial before ``adopted``. A newer checkpoint replaces one that still waits. None: nothing of the trial
        is to be copied any more. The result is the event CheckpointKept, or CheckpointLost if the files are
        missing, or if their host leaves before they could be copied. Until one of the two is committed, jobs
        that continue from a checkpoint on a drained machine wait.
        """
        return None

    def machines(self) -> Sequence[Machine]:
        """Return the experiment's machines, or () if the platform does not show individual machines."""
        return ()

    @property
    def wanted(self) -> int:
        """Return the number of jobs for which programs wait. On the platform ``ask``, the core submits no
        more jobs than this.
        """
        return 0

    def notices(self) -> Mapping[str, str]:
        """Return the platform's current problems: a short name of the affected part -> one sentence."""
        return {}

    async def remove(self, *, only_look: bool = False) -> Sequence[str]:
        """Remove the experiment's files and objects on the platform, but not the experiment's folder on the
        server.

        The service must be closed. With ``only_look``, only check whether everything can be removed. Return
        one sentence for each file or object that cannot be removed.
        """
        return ()

    @abc.abstractmethod
    async def close(self, *, detach: bool) -> Sequence[str]:
        """Close the service. ``detach``: leave jobs and keepers running; otherwise end the keepers.

        Without ``detach``, all jobs have ended before the call. Return one sentence for each keeper that
        could not be ended, and one about copies of checkpoints that the storage lacks.
        """
