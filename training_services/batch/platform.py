"""Interface of a batch platform, from which ``BatchService`` makes a training service."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from training_services.base import ExperimentContext, FileListing
from training_services.keepers.host import attempt_folder
from training_services.logs import folder_listing
from trial_keeper.machine.untrusted_files import PlainFile

__all__ = ["BatchJob", "BatchPlatform"]

PIECE = 1 << 20  # bytes of a file per read


class BatchJob(NamedTuple):
    """Job to run. ``script`` is for ``/bin/sh``; it runs the trial only once, even if the script is run
    several times.

    The script creates ``directory``, works there, and runs the trial's command in the directory of the
    trial's code. ``id`` is the job's name on the platform. The script exports NNI's variables; the platform
    provides the rest of the environment.
    """

    id: str
    script: str
    directory: Path


class BatchPlatform(abc.ABC):
    """Jobs of one experiment on a platform.

    If a method raises an error, the service calls the method again after ``poll_s`` seconds and shows the
    error's message as a notice. ``name`` is the platform's name in sentences. A platform that learns of a
    change calls ``changed`` with the id of the job: the job's metrics file has grown, or the job has started
    or ended. The service also checks all jobs every ``poll_s`` seconds.
    """

    name: str
    poll_s: float = 1.0
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
        """Return the ids of the experiment's waiting and running jobs, from their submission on."""

    @abc.abstractmethod
    async def cancel(self, job_id: str, grace: timedelta) -> None:
        """End all processes of a job with SIGTERM, then SIGKILL after the grace.

        The job may have ended already.
        """

    async def loss(self, job_id: str) -> str | None:
        """Return one sentence that explains the loss of a job without an exit code, for example a broken
        machine.

        A lost job gets another attempt. With None, the job counts as failed.
        """
        return None

    # These methods read the files of jobs. The defaults suit platforms whose jobs write to a folder of this
    # machine.

    @property
    def folder(self) -> Path:
        """Folder below which the jobs work. The path is valid for the jobs."""
        return self.context.directory

    async def read(self, parts: Sequence[str], path: str, offset: int) -> bytes:
        """Return bytes of a file from ``offset`` on; b"" at the end of the file.

        ``parts`` is the path from ``folder`` to the job's directory. Raises FileNotFoundError, and ValueError
        for a path that leaves that directory.
        """
        file = PlainFile(str(self.context.directory), parts, path)
        try:
            return os.pread(file.descriptor, PIECE, offset)
        finally:
            file.close()

    async def files(self, parts: Sequence[str]) -> FileListing:
        """Return the list of the job's files. Raises FileNotFoundError."""
        return await folder_listing(self.context.directory, parts)

    def job_folder(self, job_id: str) -> tuple[str, ...]:
        """Return the path from ``folder`` to the directory of a job."""
        _, trial_id, attempt = job_id.rsplit("-", 2)
        return attempt_folder(trial_id, int(attempt))
