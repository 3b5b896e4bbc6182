"""Methods that read the files of jobs through the keepers of their hosts."""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator
from contextlib import aclosing

from training_services.base import FileListing, TrainingService
from training_services.keepers.host import JobFiles, KeeperHost

__all__ = ["FilesOfJobs"]


class FilesOfJobs(TrainingService):
    """Part of a keeper service that reads the files of jobs.

    Subclasses implement ``_files``, which returns the host that has a job's files.
    """

    @abc.abstractmethod
    def _files(self, job_id: str, keeper_id: str | None) -> tuple[KeeperHost, JobFiles]:
        """Return the host that has the job's files, and a description of where they are. Raises
        FileNotFoundError.
        """

    async def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        host, files = self._files(job_id, keeper_id)
        async with aclosing(host.read_log(files, name, follow=follow, tail=tail)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def read_file(
        self, job_id: str, path: str, *, keeper_id: str | None = None
    ) -> AsyncIterator[bytes]:
        host, files = self._files(job_id, keeper_id)
        async with aclosing(host.read_file(files, path)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        host, files = self._files(job_id, keeper_id)
        return await host.list_files(files)
