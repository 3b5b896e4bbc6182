"""Interface of a batch platform, from which ``BatchService`` makes a training service."""

from __future__ import annotations

import abc
import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple, TypeVar

from training_services.base import ExperimentContext, FileListing
from training_services.job_ids import trial_of_job
from training_services.keepers.host import attempt_folder
from training_services.logs import folder_listing
from training_services.placement.needs import Wants
from trial_keeper.machine.untrusted_files import PlainFile

__all__ = ["BatchJob", "BatchPlatform", "answer_of"]

PIECE = 1 << 20  # bytes of a file per read

T = TypeVar("T")


class BatchJob(NamedTuple):
    """Job for a batch platform. ``script`` is for ``/bin/sh``, and runs the trial only once, even if it is
    run several times.

    The script creates ``directory``, works there, and runs the trial's command in the directory of the
    trial's code. ``id`` is the job's name on the platform. The script exports NNI's variables; the platform
    provides the rest of the environment. ``wants``: GPUs, CPUs and memory that the job needs.
    """

    id: str
    script: str
    directory: Path
    wants: Wants


class BatchPlatform(abc.ABC):
    """Access to a batch platform: submits, lists and cancels the jobs of one experiment.

    If a method raises an error, the service calls the method again after ``poll_s`` seconds and shows the
    error's message as a notice. ``name`` is the platform's name in sentences. A platform that is informed of
    changes calls ``changed`` with a job's id when the job has started, has ended, or has written metrics. The
    service also checks all jobs every ``poll_s`` seconds. A method that takes more than ``call_s``
    seconds is canceled, and counts as failed.
    """

    name: str
    poll_s: float = 1.0
    call_s: float = 120.0
    changed: Callable[[str], None] = staticmethod(lambda job_id: None)

    def __init__(self, context: ExperimentContext) -> None:
        self.context = context

    @abc.abstractmethod
    async def submit(self, job: BatchJob) -> None:
        """Submit the job under its id. The service may call this twice for one job.

        Raises JobRejected if the job can never run.
        """

    @abc.abstractmethod
    async def list(self) -> Collection[str]:
        """Return the ids of the experiment's waiting and running jobs. A job is listed from its submission
        on.
        """

    @abc.abstractmethod
    async def cancel(self, job_id: str, grace: timedelta) -> None:
        """End all processes of a job: send SIGTERM, and SIGKILL after ``grace``.

        The job may have ended already.
        """

    async def loss(self, job_id: str) -> str | None:
        """Return a sentence that explains why a job ended without an exit code, for example because of a
        broken machine.

        Such a job counts as lost and gets another attempt. If the result is None, the job counts as failed.
        """
        return None

    # The methods below read the files of jobs. The defaults are for platforms whose jobs write to a folder of
    # this machine.

    @property
    def folder(self) -> Path:
        """Folder in which each job has a subfolder, as a path that is valid where the jobs run."""
        return self.context.directory

    async def read(self, parts: Sequence[str], path: str, offset: int) -> bytes:
        """Return bytes of a job's file from ``offset`` on; b"" at the end of the file.

        ``parts`` is the path from ``folder`` to the job's directory, and ``path`` the path from there to the
        file. Raises FileNotFoundError, and ValueError for a path outside of the job's directory. The file is
        read in a thread, because its disk may be slow.
        """
        return await asyncio.to_thread(_piece, self.context.directory, parts, path, offset)

    async def files(self, parts: Sequence[str]) -> FileListing:
        """Return the list of the files in a job's directory. Raises FileNotFoundError.

        ``parts`` is the path from ``folder`` to the job's directory.
        """
        return await folder_listing(self.context.directory, parts)

    def job_folder(self, job_id: str) -> tuple[str, ...]:
        """Return the path from ``folder`` to the directory of a job."""
        return attempt_folder(*trial_of_job(job_id))


def _piece(root: Path, parts: Sequence[str], path: str, offset: int) -> bytes:
    file = PlainFile(str(root), parts, path)
    try:
        return os.pread(file.descriptor, PIECE, offset)
    finally:
        file.close()


async def answer_of(platform: BatchPlatform, name: str, call: Awaitable[T]) -> T:
    """Return the result of a call of the platform's method ``name``.

    Raise TimeoutError with a sentence after ``call_s`` seconds, and any error of the platform.
    """
    try:
        async with asyncio.timeout(platform.call_s) as limit:
            return await call
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(
            f"the platform's method {name}() has not returned within {platform.call_s:g} s"
        ) from error
