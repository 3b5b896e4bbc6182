"""Interface to a machine that runs jobs through a keeper. Each platform implements it."""

from __future__ import annotations

import abc
import errno
import json
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from training_services.addresses import Reach
from training_services.base import (
    ExperimentContext,
    FileListing,
    Gang,
    KeptCopy,
    Origin,
    Preload,
    ServiceUnavailable,
    TrialJobSpec,
    job_of_member,
)
from training_services.checkpoint_store import CheckpointStore
from training_services.code import CodeArchive
from training_services.keepers.gone import HostGone
from training_services.keepers.jobs import StartOrder
from training_services.logs import check_log_name
from training_services.placement.needs import Host, Wants

__all__ = [
    "HostGone",
    "JobFiles",
    "KeeperFiles",
    "KeeperHost",
    "attempt_folder",
    "read_manager_file",
    "start_order",
    "write_manager_file",
]

LOG_CAP = 1 << 30  # bytes of output kept per trial


class KeeperFiles(Protocol):
    """Reader of the files that jobs have written on a host, with or without the help of its keeper.

    ``parts`` is the path from the experiment's directory to a job's folder. The methods raise
    FileNotFoundError, ValueError (invalid path) and ServiceUnavailable (the host cannot be reached).
    """

    def read(
        self, parts: Sequence[str], path: str, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the content of a job's file in chunks: the whole file, or its last ``tail`` lines.

        ``parts``: path to the job's folder. With ``follow``, continue until the job has ended; only a keeper
        can do this.
        """

    async def listing(self, parts: Sequence[str]) -> FileListing:
        """Return the list of regular files in a job's folder, whose path is ``parts``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Location of a job's files, and the means to read them.

    ``parts`` is the path from the experiment's directory on the host to the job's folder. ``is_open()`` is
    True while the job waits or runs; ``ended(seconds)`` waits at most this long for the job's end. ``keeper``
    reads the files if the server has no direct access.
    """

    job_id: str
    parts: tuple[str, ...]
    keeper: KeeperFiles
    is_open: Callable[[], bool]
    ended: Callable[[float], Awaitable[None]]


class KeeperHost(abc.ABC):
    """Machine on which a keeper of this experiment runs jobs. Each platform has a subclass.

    ``wants``: needs of the jobs; None: the needs that the experiment gives. The platform calls ``changed``
    when ``obstacle`` has changed. ``passing``: the machine was created for certain jobs and is removed after
    them. No second keeper is ever started there, so the token in ``manager.json`` needs no number of the
    file's version, and the keeper does not count as silent before its first call. ``beside_server``: the
    server runs on the machine. ``keeps_files``: the trials' files stay there when the experiment stops.
    ``call_margin``: a healthy keeper calls again within this time after an answer.
    """

    keeper_id: str
    host: Host
    wants: Wants | None = None
    passing = False
    beside_server = False
    keeps_files = True
    call_margin = timedelta(seconds=15)
    changed: Callable[[], None] = staticmethod(lambda: None)

    @property
    def accepted(self) -> bool:
        """True if an engine has taken the request for this machine, so an earlier error is over."""
        return False

    async def open(self) -> None:
        """Prepare the data that the commands that start jobs will need, such as the packed code.

        The service calls this before all other methods. Raises ServiceUnavailable.
        """
        return None

    @abc.abstractmethod
    async def read_manager(self) -> Mapping[str, Any] | None:
        """Return the last version of the keeper's ``manager.json``, or None if it is missing or unreadable.

        This does not wait for a connection to the machine.
        """

    def new_token(self) -> str:
        """Return a new secret token for the keeper. The service calls this if no token is committed."""
        return secrets.token_urlsafe(32)

    @abc.abstractmethod
    async def reach(self) -> Reach:
        """Connect to the machine if necessary, and return the addresses at which its keeper reaches the
        server.

        Raises OSError, ServiceError.
        """

    @abc.abstractmethod
    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        """Replace ``manager.json``, the file with the server's address and the token for the keeper.

        Raises OSError, ServiceError.
        """

    async def enrol(self, ticket: str, launch: str) -> Mapping[str, Any] | None:
        """Return what a program on the host needs to start the keeper (``trial_keeper.enrol``).

        ``launch``: name that the program has made up for itself. Return None if the ticket is wrong. Raises
        Refused if another program has shown it, ServiceError, OSError.
        """
        return None

    @abc.abstractmethod
    async def keep(self) -> None:
        """Start the keeper unless it runs, and return when it has ended. Raises OSError, ServiceError.

        Raises HostGone if the host no longer exists.
        """

    @abc.abstractmethod
    async def end(self, *, told: bool) -> None:
        """End the keeper. ``told``: the keeper was asked to exit, so give it some time to exit by itself."""

    async def revive(self) -> None:
        """Kill a keeper that does not answer, so that ``keep`` returns and the keeper is started again.

        The keeper's trials continue, and nothing is lost. A platform that cannot distinguish a hanging keeper
        from a broken connection does nothing. Raises OSError, ServiceError.
        """
        return None

    def is_without_keeper(self) -> bool:
        """Return True if certainly no keeper of the experiment runs on the host."""
        return False

    async def close(self) -> None:
        """Release the server's resources for this host. The host's keeper continues."""
        return None

    def obstacle(self) -> str | None:
        """Return a sentence that says why no job can start on this host now, or None.

        The queue asks before each start.
        """
        return None

    @property
    def gang_address(self) -> str:
        """Address where members of gangs on other hosts reach this one; "" if it is not known yet."""
        return "127.0.0.1"

    def verdict(self) -> HostGone | None:
        """Return why the host ends, if the job on it has caused this; else None.

        Such a job counts as failed, not as lost.
        """
        return None

    def departure(self) -> str | None:
        """Return why the host shuts down, if that is known, for the reason of the jobs lost with it."""
        return None

    @abc.abstractmethod
    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        """Return the command that starts the job on these GPUs."""

    def files(self) -> KeeperFiles:
        """Return a reader for the experiment's files on this host that works without a keeper.

        Raises ServiceUnavailable.
        """
        raise ServiceUnavailable(f"files on {self.host.name} can only be read while the experiment runs")

    async def remove(self, *, only_look: bool = False) -> None:
        """Remove the experiment's files on this host after its keeper has ended.

        The experiment's folder on the server stays. With ``only_look``, only check that the files can be
        removed. Raises ServiceError.
        """
        return None

    def read_log(
        self, job: JobFiles, name: str, *, follow: bool, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Read a job's log through the host's keeper. See ``TrainingService.read_log``."""
        check_log_name(name)
        return job.keeper.read(job.parts, name, follow=follow, tail=tail)

    def read_file(self, job: JobFiles, path: str) -> AsyncGenerator[bytes, None]:
        """Read a job's file through the host's keeper. See ``TrainingService.read_file``."""
        return job.keeper.read(job.parts, path)

    async def list_files(self, job: JobFiles) -> FileListing:
        """List a job's files through the host's keeper. See ``TrainingService.list_files``."""
        return await job.keeper.listing(job.parts)


def attempt_folder(trial_id: str, attempt: int, member: int = 0) -> tuple[str, ...]:
    """Return the path from the experiment's directory to the directory of an attempt, or of its member."""
    first = ("trials", trial_id)
    folder = first if attempt == 1 else (*first, f"attempt-{attempt}")
    return (*folder, f"member-{member}") if member else folder


def start_order(
    context: ExperimentContext,
    job: TrialJobSpec,
    gpus: tuple[int, ...] | None,
    *,
    platform: str,
    code: CodeArchive | None = None,
    directory: str | None = None,
    storage: str | None = None,
    beside_server: bool = False,
) -> StartOrder:
    """Return the command that starts a job, with the environment variables that NNI's trials expect.

    ``gpus`` None: the platform itself decides which GPUs the trial sees. ``code``: archive from which the
    trial gets a copy of the code; None: the trial runs in the code directory itself. ``directory``: path of
    the code directory on the host; None: the same path as on the server. ``storage``: mount point of the
    shared storage, where the trial writes its output. ``beside_server``: the host is the server's machine, so
    the trial can use the server's copy of its checkpoint.
    """
    directory = directory or str(context.trial_code_directory)
    environment: dict[str, str | None] = {
        "NNI_PLATFORM": "local",  # "local" on all platforms: with this value NNI's own SDK writes files
        "NNIMGR_PLATFORM": platform,
        "NNI_EXP_ID": context.experiment_id,
        "NNI_TRIAL_JOB_ID": job.trial_id,
        "NNI_TRIAL_SEQ_ID": str(job.sequence),
        "NNI_TRIAL_SEED": _text_of(job.seed),
        "NNI_CODE_DIR": directory,
        # The user's environment may contain these variables from another experiment.
        "NNI_TRIAL_COMMAND_CHANNEL": None,
        "REUSE_MODE": None,
        "MULTI_PHASE": "true" if context.multi_phase else None,
        "NNI_RESUME_DIR": None,  # the keeper sets it if the trial continues from a checkpoint
        "NNI_RESUME_STEP": None if job.origin is None else _text_of(job.origin.step),
        "NNI_RESUME_REPORTS": None if job.origin is None else str(job.origin.reports),
        # Unset the server's own rank in a distributed job: NNI's SDK reports results of the first rank only.
        **dict.fromkeys(("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")),
    }
    if gpus is not None and Wants.of(context).of_job(job).gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    if gpus:
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # number GPUs as nvidia-smi does
    if storage is not None:
        output = f"{storage}/nni/{context.experiment_id}/trials/{job.trial_id}/nnioutput"
        environment |= {"NNI_OUTPUT_DIR": output, "NNIMGR_SHARED_STORAGE": storage}
    if context.gang is not None:
        environment |= {
            "TORCHELASTIC_RUN_ID": job.trial_id,
            "TORCHELASTIC_RESTART_COUNT": str(job.attempt - 1),
            "TORCHELASTIC_MAX_RESTARTS": str(context.gang.max_restarts),
            **_members(context.gang, job),
        }
    return {
        "trial_id": job.trial_id,
        "attempt": job.attempt,
        "directory": "/".join(attempt_folder(job.trial_id, job.attempt, job.member or 0)),
        "command": (context.gang and context.gang.command_of(job.member or 0)) or context.trial_command,
        "cwd": directory,
        "environment": environment,
        "parameter": job.parameter_text,
        "log_cap": LOG_CAP,
        **({} if code is None else {"code": code.order}),
        **({} if context.gang is None else {"gang": _gang(context.gang, job)}),
        **({} if context.preload is None else {"preload": _preload(context.preload)}),
        **({} if job.origin is None else {"origin": _origin(job, job.origin, context, beside_server)}),
    }


def _gang(gang: Gang, job: TrialJobSpec) -> Mapping[str, Any]:
    processes = {} if gang.processes is None else {"processes": gang.processes}
    if job.member is None:
        return processes
    member = {"job": job_of_member(job.id)[0], "member": job.member, "hosts": list(job.hosts)}
    return {**processes, **member, "key": job.line_key}


def _members(gang: Gang, job: TrialJobSpec) -> Mapping[str, str]:
    """Return the variables about the number of members. The crews of several members set the others."""
    if gang.nodes == 1:
        return {}
    found = {"NNIMGR_GANG_MIN": str(gang.least), "NNIMGR_GANG_MAX": str(gang.nodes)}
    if gang.roles:
        found["NNIMGR_GANG_ROLES"] = gang.sizes_of_roles
    if job.member is None:
        found |= {"NNIMGR_GANG_RANK": "0", "NNIMGR_GANG_SIZE": "1", "NNIMGR_GANG_HOSTS": "127.0.0.1"}
        found["NNIMGR_GANG_ROUND"] = str(job.attempt)
    return found


def _preload(preload: Preload) -> Mapping[str, Any]:
    found = {"modules": list(preload.modules), "target": preload.target}
    return {**found, "resident": True} if preload.resident else found


def _text_of(number: int | None) -> str | None:
    return None if number is None else str(number)


def _origin(
    job: TrialJobSpec, origin: Origin, context: ExperimentContext, beside_server: bool
) -> Mapping[str, Any]:
    """Return the field ``origin`` of a start command: the checkpoint from which the attempt continues."""
    return {
        "directory": "/".join(attempt_folder(origin.trial_id or job.trial_id, origin.attempt)),
        "number": origin.number,
        "step": origin.step,
        "reports": origin.reports,
        **({} if origin.size is None else {"size": origin.size}),
        **({} if job.kept is None else {"kept": _kept(job, job.kept, context, beside_server)}),
    }


def _kept(
    job: TrialJobSpec, kept: KeptCopy, context: ExperimentContext, beside_server: bool
) -> Mapping[str, Any]:
    assert job.origin_id is not None
    job_id, number = job.origin_id
    # With a storage, the keeper asks the server, which fetches a missing copy from the storage.
    reads = beside_server and context.checkpoint_storage is None
    path = str(CheckpointStore(context.directory).path(job_id, number)) if reads else None
    return {"job": job_id, "number": number, "digest": kept.digest, "path": path}


def read_manager_file(directory: Path) -> Mapping[str, Any] | None:
    """Return the content of ``manager.json`` in a local directory, or None if it is missing or unreadable."""
    try:
        manager = json.loads((directory / "manager.json").read_bytes())
    except (OSError, ValueError):
        return None
    return manager if isinstance(manager, dict) else None


def write_manager_file(directory: Path, manager: Mapping[str, Any]) -> None:
    """Create a local directory if necessary, and replace its ``manager.json`` (mode 0600). Raises OSError."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = directory / "manager.json.new"
    content = json.dumps(manager).encode()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        if os.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(new)) from error
    finally:
        os.close(descriptor)
    new.rename(directory / "manager.json")
