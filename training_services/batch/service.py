"""Training service on a platform that can submit, list and cancel jobs and read the files that jobs write."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from training_services.base import (
    Capabilities,
    FileListing,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    JobRejected,
    JobWaiting,
    KeeperBound,
    KeeperEnrolled,
    KnownKeepers,
    Place,
    StopOrdered,
    TrainingService,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.batch.job import FollowedJob
from training_services.batch.platform import BatchPlatform, answer_of
from training_services.logs import check_log_name
from training_services.outbox import Outbox
from training_services.placement.needs import Wants

__all__ = ["BatchService"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


class BatchService(TrainingService):
    """Training service on a ``BatchPlatform``, whose own queue decides when the jobs start.

    The core numbers commands per keeper, so the whole platform counts as one keeper. A job is started at most
    once, because its script first creates a claim file, and exits if this file exists. A server that was
    killed before it recorded a submission submits the job again, and the second script does nothing.
    """

    capabilities = Capabilities(updates=False)

    def __init__(self, platform: BatchPlatform) -> None:
        self._platform = platform
        self._outbox = Outbox()
        self._jobs: dict[str, FollowedJob] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._seq = 0  # number of the last command
        self._look: asyncio.Task[None] | None = None
        self._pushed: set[str] = set()  # jobs that the platform has reported as changed
        self._push = asyncio.Event()
        self._troubles: dict[object, str] = {}  # call to the platform that is retried -> why it has failed
        self._place = Place(keeper_id=platform.name, instance=platform.name, boot_id=platform.name)

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        self._seq = max([0, *(keeper.last_cmd for keeper in known.keepers)])
        place = self._place
        if not known.keepers:
            self._outbox.put([KeeperEnrolled(keeper_id=place.keeper_id, token_sha256="")])
        if [keeper.instance for keeper in known.keepers] != [place.instance]:
            bound = KeeperBound(keeper_id=place.keeper_id, instance=place.instance, boot_id=place.boot_id)
            self._outbox.put([bound])
        self._platform.changed = self._changed

    def adopted(self) -> None:
        for job in self._jobs.values():
            self._follow(job)
        self._look = asyncio.create_task(self._look_on())

    async def close(self, *, detach: bool) -> Sequence[str]:
        """Stop following the jobs, which continue on the platform. Return an empty tuple."""
        tasks = [*self._tasks.values(), *([] if self._look is None else [self._look])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._outbox.close()
        return ()

    # ---- calls without I/O, which return the fact to commit -----------------------------------------------

    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        if job.id in self._jobs:
            return None
        Wants.of(self._platform.context).of_job(job)  # raises JobRejected if a need is not valid
        self._jobs[job.id] = FollowedJob(
            job, self._platform, put=self._outbox.put, insist=self._insist, acked=lambda: self._seq
        )
        if job.place is not None:
            return None
        self._seq += 1
        return JobPlaced(job_id=job.id, place=self._place, cmd_seq=self._seq)

    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        return None  # the platform cannot update jobs; see ``capabilities``

    def cancel_trial_job(
        self, job_id: str, *, grace: timedelta, save_within: timedelta | None = None
    ) -> StopOrdered | None:
        job = self._jobs.get(job_id)
        if job is None or job.stop is not None or job.over.is_set():
            return None
        job.stop = grace
        self._seq += 1
        return StopOrdered(job_id=job_id, cmd_seq=self._seq, grace=grace)

    def committed(self, facts: Sequence[JobEvent]) -> None:
        for fact in facts:
            job = self._jobs.get(getattr(fact, "job_id", ""))
            if job is None:
                continue
            if isinstance(fact, JobPlaced):
                self._follow(job)
            elif isinstance(fact, StopOrdered):
                job.news.set()
            elif isinstance(fact, JobEnded | JobLost):
                del self._jobs[job.spec.id]

    # ---- the platform -------------------------------------------------------------------------------------

    def _follow(self, job: FollowedJob) -> None:
        job_id = job.spec.id
        task = self._tasks[job_id] = asyncio.create_task(job.follow(), name=job_id)
        task.add_done_callback(lambda _: self._tasks.pop(job_id, None))

    def _changed(self, job_id: str) -> None:
        self._pushed.add(job_id)
        self._push.set()

    async def _look_on(self) -> None:
        """Check all jobs every ``poll_s`` seconds. A job that the platform reports as changed is checked at
        once.
        """
        loop = asyncio.get_running_loop()
        await self._insist(self._end_strangers)
        due = loop.time()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._push.wait(), due - loop.time())
            pushed, self._pushed = self._pushed, set()
            self._push.clear()
            if loop.time() >= due:
                due = loop.time() + self._platform.poll_s
                pushed = set(self._jobs)
            asked = [job for job in map(self._jobs.get, pushed) if job is not None and job.submitted]
            if asked:
                listed = await self._insist(self._list)
                for job in asked:
                    job.listed = job.spec.id in listed
                    job.news.set()

    async def _end_strangers(self) -> None:
        """Cancel jobs of the experiment that run on the platform and that this service does not know."""
        prefix = f"{self._platform.context.experiment_id}-"
        for job_id in await self._list():
            if job_id.startswith(prefix) and job_id not in self._jobs:
                await answer_of(self._platform, "cancel", self._platform.cancel(job_id, timedelta(0)))

    async def _list(self) -> Collection[str]:
        return await answer_of(self._platform, "list", self._platform.list())

    async def _insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Retry ``work``, a call to the platform, until the call succeeds. Return its result. Raises
        JobRejected.
        """
        platform, piece = self._platform, object()
        try:
            while True:
                try:
                    return await work()
                except JobRejected:
                    raise
                except Exception as error:  # the platform's code may raise any error
                    self._say(piece, f"{platform.name}: {str(error) or repr(error)}; retrying")
                await asyncio.sleep(platform.poll_s)  # back-off
        finally:
            self._troubles.pop(piece, None)

    def _say(self, piece: object, trouble: str) -> None:
        """Show ``trouble``, the reason why a call to the platform failed, as a notice until the call
        succeeds.

        Log the reason, unless another call is failing for the same reason.
        """
        if trouble not in self._troubles.values():
            logger.warning("experiment %s: %s", self._platform.context.experiment_id, trouble)
        self._troubles[piece] = trouble

    def notices(self) -> Mapping[str, str]:
        troubles = sorted(set(self._troubles.values()))
        if not troubles:
            return {}
        others = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        return {"platform": troubles[0] + others}

    # ---- questions ----------------------------------------------------------------------------------------

    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        return [
            TrialJobDetail(job_id=job_id, place=self._place, started=job.started, ended=job.over.is_set())
            for job_id, job in self._jobs.items()
        ]

    async def events(self) -> AsyncIterator[Sequence[JobEvent]]:
        while (batch := await self._outbox.take()) is not None:
            yield batch

    async def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        check_log_name(name)
        offset = 0 if tail is None else await self._tail_offset(job_id, name, tail)
        while True:
            job = self._jobs.get(job_id)
            # Check for the job's end before the file is read, so that its last output is not missed.
            over = not follow or job is None or job.over.is_set()
            try:
                async for chunk in self.read_file(job_id, name, offset=offset):
                    offset += len(chunk)
                    yield chunk
            except FileNotFoundError:  # the job may not have started
                if over:
                    raise
            if over or job is None:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(job.over.wait(), self._platform.poll_s)

    async def _tail_offset(self, job_id: str, name: str, tail: int) -> int:
        """Return the byte offset in a job's log at which the last ``tail`` lines begin."""
        end = 0
        starts = deque([0], maxlen=tail + 1)  # offsets of the last lines; the last line may be empty
        with contextlib.suppress(FileNotFoundError):  # the job may not have started
            async for chunk in self.read_file(job_id, name):
                starts.extend(end + match.end() for match in re.finditer(b"\n", chunk))
                end += len(chunk)
        if starts[-1] < end:
            starts.append(end)  # end of a last line without a newline
        return starts[0]

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        platform = self._platform
        return await answer_of(platform, "files", platform.files(platform.job_folder(job_id)))

    async def read_file(
        self, job_id: str, path: str, *, keeper_id: str | None = None, offset: int = 0
    ) -> AsyncIterator[bytes]:
        platform = self._platform
        parts = platform.job_folder(job_id)
        while chunk := await answer_of(platform, "read", platform.read(parts, path, offset)):
            offset += len(chunk)
            yield chunk
