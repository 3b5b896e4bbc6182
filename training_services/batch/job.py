"""Follows one job of a batch platform, from its submission (or its adoption after a restart) to its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol, TypeVar

from training_services.base import (
    EndReason,
    JobEnded,
    JobEvent,
    JobLost,
    JobNoted,
    JobRejected,
    JobStarted,
    KeeperAcknowledged,
    TrialJobSpec,
)
from training_services.batch.platform import BatchJob, BatchPlatform, answer_of
from training_services.batch.script import NOTES, make_script
from training_services.frames import read_frames
from training_services.placement.needs import Wants
from trial_keeper.attempt import frames

__all__ = ["FollowedJob"]

T = TypeVar("T")


class Insist(Protocol):
    """Type of a function that retries ``work``, a call to the platform, until the call succeeds.

    The function raises JobRejected if ``work`` does.
    """

    async def __call__(self, work: Callable[[], Awaitable[T]]) -> T: ...


_METRICS = ".nni/metrics"
_SPOILT = "the metrics file has no frame header at byte {}; the rest of the file is ignored"


class FollowedJob:
    """Job that the service follows on the platform until the job ends.

    ``news`` is set when the job may have changed. ``put`` takes events for the core. ``insist`` retries a
    call to the platform until the call succeeds. ``acked`` returns the number of the last command that was
    carried out on the platform.
    """

    def __init__(
        self,
        spec: TrialJobSpec,
        platform: BatchPlatform,
        *,
        put: Callable[[list[JobEvent]], None],
        insist: Insist,
        acked: Callable[[], int],
    ) -> None:
        self.spec = spec
        self.news = asyncio.Event()
        self.submitted = False
        self.listed = True  # True: the platform listed the job the last time
        self.started = spec.started
        self.over = asyncio.Event()
        self.stop = None if spec.stop is None else spec.stop.grace
        self._platform, self._put, self._insist, self._acked = platform, put, insist, acked
        self._position = self._offset = 0  # number and byte offset of the next frame in the metrics file
        self._spoilt = False

    async def follow(self) -> None:
        """Submit the job unless it has started already or must stop, and report its events until its end."""
        platform, spec = self._platform, self.spec
        if self.stop is None and not self.started:
            script = make_script(platform.context, spec, platform.folder, platform=platform.name)
            parts = platform.job_folder(spec.id)
            wants = Wants.of(platform.context).of_job(spec)
            order = BatchJob(spec.id, script, platform.folder.joinpath(*parts), wants)
            try:
                await self._insist(lambda: answer_of(platform, "submit", platform.submit(order)))
            except JobRejected as rejection:
                self._end(EndReason.NEVER_STARTED, code=None, message=str(rejection))
                return
        self.submitted = True
        told: timedelta | None = None  # grace of the last cancellation; None: the job was not canceled
        while True:
            await self.news.wait()
            self.news.clear()
            # Check whether the job is listed before its files are read: once it is not, they are complete.
            listed = self.listed
            await self._insist(self._read_metrics)
            code = await self._insist(self._exit_code)
            if not listed:
                await self._finish(code)
                return
            # The trial has ended if there is an exit code: end the processes that it has left behind.
            grace = timedelta(0) if code is not None else self.stop
            if grace is not None and grace != told:
                told = grace
                await self._insist(partial(self._cancel, grace))

    async def _cancel(self, grace: timedelta) -> None:
        await answer_of(self._platform, "cancel", self._platform.cancel(self.spec.id, grace))

    async def _read_metrics(self) -> None:
        parts = self._platform.job_folder(self.spec.id)
        if not self.started and await self._note("claim"):
            self.started = True
            self._put([JobStarted(job_id=self.spec.id, started_at=datetime.now(UTC), pid=None)])
        unread = b""  # beginning of a frame whose rest was not read yet
        while not self._spoilt:
            try:
                piece = await self._read(parts, _METRICS, self._offset + len(unread))
            except FileNotFoundError:
                return
            if not piece:
                return
            unread += piece
            size = len(unread)
            cut = frames.cut(unread, skip=0, frames=size + 1, size=size, first=True)
            events = read_frames(
                self.spec.id, self.spec.trial_id, position=self._position, payloads=cut.payloads
            )
            unread = unread[cut.end :]
            self._offset += cut.end
            self._position += len(events)
            self._put([event for event in events if event.position >= self.spec.recorded])
            if cut.bad:
                self._spoilt = True
                self._put([JobNoted(job_id=self.spec.id, note=_SPOILT.format(self._offset))])

    async def _exit_code(self) -> int | None:
        with contextlib.suppress(ValueError):
            return int(await self._note("exit"))
        return None

    async def _note(self, kind: str) -> bytes:
        try:
            return await self._read((NOTES,), f"{self.spec.id}.{kind}", 0)
        except FileNotFoundError:
            return b""

    async def _read(self, parts: Sequence[str], path: str, offset: int) -> bytes:
        return await answer_of(self._platform, "read", self._platform.read(parts, path, offset))

    async def _loss(self) -> str | None:
        return await answer_of(self._platform, "loss", self._platform.loss(self.spec.id))

    async def _finish(self, code: int | None) -> None:
        """Report the end of a job that the platform no longer lists."""
        if self.started and self.stop is not None:
            self._end(EndReason.STOPPED, code=code)
        elif self.started and code is not None:
            self._end(EndReason.EXITED, code=code)
        elif self.stop is not None:
            self._end(EndReason.NEVER_STARTED, code=None)
        elif (why := await self._insist(self._loss)) is not None:
            self._lose(why)
        elif self.started:
            message = "the job ended without an exit code: it was killed, or its machine was lost"
            self._end(EndReason.EXITED, code=None, message=message)
        else:
            self._lose(f"{self._platform.name} no longer lists the job, which had not started")

    def _lose(self, reason: str) -> None:
        self.over.set()
        acknowledged = KeeperAcknowledged(keeper_id=self._platform.name, acked_cmd=self._acked())
        self._put([JobLost(job_id=self.spec.id, reason=reason), acknowledged])

    def _end(self, reason: EndReason, *, code: int | None, message: str | None = None) -> None:
        self.over.set()
        ended = JobEnded(
            job_id=self.spec.id,
            reason=reason,
            exit_code=code,
            signal=None,
            metrics=max(self._position, self.spec.recorded),
            acked_cmd=self._acked(),
            ended_at=datetime.now(UTC),
            message=message,
        )
        self._put([ended])
