"""How a platform reaches a machine whose jobs are run by a keeper."""

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
from typing import Any, NamedTuple, Protocol

from training_services.base import (
    ExperimentContext,
    FileListing,
    ServiceError,
    ServiceUnavailable,
    TrialJobSpec,
)
from training_services.code import CodeArchive
from training_services.keeper_link import StartOrder
from training_services.logs import check_log_name
from training_services.needs import Host

__all__ = [
    "HostGone",
    "JobFiles",
    "KeeperFiles",
    "KeeperHost",
    "Reach",
    "Wants",
    "attempt_folder",
    "read_manager_file",
    "start_order",
    "write_manager_file",
]

LOG_CAP = 1 << 30  # bytes of output kept of a trial


class HostGone(ServiceError):
    """The host is no more, and with it all that ran there; it will not come back.

    ``failed``: by what the jobs there did themselves (they ran out of memory, say), so that trying them anew
    elsewhere would be of no use.
    """

    def __init__(self, reason: str, *, failed: bool = False) -> None:
        super().__init__(reason)
        self.failed = failed


class Reach(NamedTuple):
    """Where a keeper finds the server: addresses as "https://host:port", tried in turn.

    On the server's own machine an address is that of a Unix socket (``trial_keeper.local_http``).
    ``fingerprint``: of the certificate that an https address shows, SHA-256 in hex. ``authorities``: whose
    certificates for the address's name are taken as well, since something between may end TLS; as PEM, or ""
    for those that the keeper's machine knows; None: nobody's.
    """

    urls: Sequence[str]
    fingerprint: str | None = None
    authorities: str | None = None


class KeeperFiles(Protocol):
    """The files of a host, read by the keeper there, or without one.

    ``parts``: a job's folder below the experiment's directory. They raise what ``TrainingService.read_log``
    raises.
    """

    def read(
        self, parts: Sequence[str], path: str, *, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Chunks of a file below that folder, all of it or its last so many lines; with ``follow`` until the
        job has ended, if a keeper reads."""

    async def listing(self, parts: Sequence[str]) -> FileListing:
        """The plain files below that folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """A job whose files are read.

    ``parts``: its folder below the experiment's directory on its host. ``is_open``: whether it waits or runs;
    ``ended(seconds)`` waits for its end, but no longer than that. ``keeper`` reads for a server that cannot.
    """

    job_id: str
    parts: tuple[str, ...]
    keeper: KeeperFiles
    is_open: Callable[[], bool]
    ended: Callable[[float], Awaitable[None]]


class Wants(NamedTuple):
    """What each job needs on a host: GPUs, CPUs, MiB of memory; None: it was not said."""

    gpus: float | None
    cpus: float | None
    memory: int | None

    @classmethod
    def of(cls, context: ExperimentContext) -> Wants:
        return cls(context.trial_gpu_number, context.trial_cpu_number, context.trial_memory_size)


class KeeperHost(abc.ABC):
    """A machine with a keeper of this experiment, as its platform reaches it.

    ``wants`` None: what the experiment says; ``changed`` is to be called when its obstacle has changed.
    ``passing``: it is made for some jobs and gone after them. No other keeper will ever be started there, so
    its ``manager.json`` need not say when it was written, and it is not missed before its first word.
    ``call_margin``: a keeper that is well calls again within this time after an answer.
    """

    keeper_id: str
    host: Host
    wants: Wants | None = None
    passing = False
    call_margin = timedelta(seconds=15)
    changed: Callable[[], None] = staticmethod(lambda: None)

    async def open(self) -> None:
        """Get ready what start commands need; the first call. Raises ServiceUnavailable."""
        return None

    @abc.abstractmethod
    async def read_manager(self) -> Mapping[str, Any] | None:
        """The keeper's ``manager.json`` as it was last written; None if there is none that can be read.

        It does not wait for the machine.
        """

    def new_token(self) -> str:
        """What its keeper is to show, if none was committed."""
        return secrets.token_urlsafe(32)

    @abc.abstractmethod
    async def reach(self) -> Reach:
        """Connect to the machine, if need be. Raises OSError, ServiceError."""

    @abc.abstractmethod
    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        """Replace the keeper's ``manager.json``. Raises OSError, ServiceError."""

    @abc.abstractmethod
    async def keep(self) -> None:
        """See to it that the keeper runs; return when it has ended. Raises OSError, ServiceError.

        HostGone says that there is nothing left to keep.
        """

    @abc.abstractmethod
    async def end(self, *, told: bool) -> None:
        """End the keeper; with ``told`` it was asked to leave and gets some time to go by itself."""

    async def revive(self) -> None:
        """Kill a keeper that does not answer, so that ``keep`` returns and it is started again.

        Its trials are not touched, and it loses nothing. A platform that cannot tell whether the keeper hangs
        or the link is down does nothing. Raises OSError, ServiceError.
        """
        return None

    async def close(self) -> None:
        """Let go of the host; its keeper is left as it is."""
        return None

    def obstacle(self) -> str | None:
        """Why no job can be started here at present, as one sentence: looked at before each is placed."""
        return None

    def verdict(self) -> str | None:
        """Why it ends, if by what its job did: a job that ends with it has failed then, and is not lost."""
        return None

    @abc.abstractmethod
    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        """The start command of a job on these GPUs."""

    def files(self) -> KeeperFiles:
        """The experiment's files here, read without its keeper. Raises ServiceUnavailable."""
        raise ServiceUnavailable(f"files on {self.host.name} can only be read while the experiment runs")

    async def remove(self, *, only_look: bool = False) -> None:
        """Remove what the experiment has left here, beside its folder on the server; its keeper has ended.

        ``only_look``: see whether that can be done. Raises ServiceError.
        """
        return None

    def read_log(
        self, job: JobFiles, name: str, *, follow: bool, tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """As ``TrainingService.read_log``; through the keeper."""
        check_log_name(name)
        return job.keeper.read(job.parts, name, follow=follow, tail=tail)

    def read_file(self, job: JobFiles, path: str) -> AsyncGenerator[bytes, None]:
        """As ``TrainingService.read_file``; through the keeper."""
        return job.keeper.read(job.parts, path)

    async def list_files(self, job: JobFiles) -> FileListing:
        """As ``TrainingService.list_files``; through the keeper."""
        return await job.keeper.listing(job.parts)


def attempt_folder(trial_id: str, attempt: int) -> tuple[str, ...]:
    """The directory of an attempt, below the experiment's."""
    first = ("trials", trial_id)
    return first if attempt == 1 else (*first, f"attempt-{attempt}")


def start_order(
    context: ExperimentContext,
    job: TrialJobSpec,
    gpus: tuple[int, ...] | None,
    *,
    platform: str,
    code: CodeArchive | None = None,
    directory: str | None = None,
) -> StartOrder:
    """The start command of a job, with the environment that NNI's trials know.

    ``gpus`` None: the platform itself says which ones the trial sees. ``code``: what the trial gets a copy
    of; None: it runs in the code's own directory, which is on the host, as ``directory`` if that is another.
    """
    directory = directory or str(context.trial_code_directory)
    environment: dict[str, str | None] = {
        "NNI_PLATFORM": "local",  # whatever it is: by this NNI's own SDK writes files
        "NNIMGR_PLATFORM": platform,
        "NNI_EXP_ID": context.experiment_id,
        "NNI_TRIAL_JOB_ID": job.trial_id,
        "NNI_TRIAL_SEQ_ID": str(job.sequence),
        "NNI_CODE_DIR": directory,
        # What the user's own environment may hold of another experiment.
        "NNI_TRIAL_COMMAND_CHANNEL": None,
        "REUSE_MODE": None,
        "MULTI_PHASE": "true" if context.multi_phase else None,
    }
    if gpus is not None and context.trial_gpu_number is not None:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    if gpus:
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # numbers as nvidia-smi gives them
    return {
        "trial_id": job.trial_id,
        "attempt": job.attempt,
        "directory": "/".join(attempt_folder(job.trial_id, job.attempt)),
        "command": context.trial_command,
        "cwd": directory,
        "environment": environment,
        "parameter": job.parameter_text,
        "log_cap": LOG_CAP,
        **({} if code is None else {"code": code.order}),
    }


def read_manager_file(directory: Path) -> Mapping[str, Any] | None:
    """The ``manager.json`` in a directory of this machine; None if there is none that can be read."""
    try:
        manager = json.loads((directory / "manager.json").read_bytes())
    except (OSError, ValueError):
        return None
    return manager if isinstance(manager, dict) else None


def write_manager_file(directory: Path, manager: Mapping[str, Any]) -> None:
    """Replace the ``manager.json`` (0600) in a directory of this machine, which is made. Raises OSError."""
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
