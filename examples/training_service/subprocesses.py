"""A training service in one file: each job is a process of this machine, at most ``maxTrials`` at a time.

Use it with ``nnictl trainingservice register --package subprocesses`` (this directory on PYTHONPATH) and
``trainingService: {platform: subprocesses}``. What it promises: jobs run on without the server and are found
again; a job is started at most once; its metrics are told in order, from its file; a machine that was
restarted has lost its jobs. Unlike the built-in platform it has no keeper: who kills a job's shell from
outside makes its end unknown, and nothing bounds its output. docs/writing-a-training-service.md explains the
contract that each part here keeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from training_services.base import (
    Capabilities,
    EndReason,
    ExperimentContext,
    FileListing,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    JobStarted,
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
from training_services.frames import read_frames
from training_services.keeper_host import attempt_folder, start_order
from training_services.keeper_service import ServiceTools
from training_services.logs import LogFile, folder_file, folder_listing
from training_services.outbox import Outbox
from trial_keeper import frames, procs
from trial_keeper.watch import Watcher

NAME = "subprocesses"
MARK = "NNIMGR_JOB_ID"  # in the environment of all processes of a job: by it they are found
LOOK_S = 0.1  # between looks at a log that is followed
SCRIPT = '/bin/bash -c "$0"; echo $? > .exit.new; mv .exit.new .exit'


class SubprocessConfig(BaseModel):
    """``trainingService`` with this platform."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )

    platform: Literal["subprocesses"] = "subprocesses"
    max_trials: Annotated[int, Field(gt=0)] = 64


@dataclass(slots=True, eq=False)
class _Run:
    """A job that has a place. ``news`` is set when its metrics grow, its process ends, or it is to stop."""

    job: TrialJobSpec
    directory: Path
    news: asyncio.Event = field(default_factory=asyncio.Event)
    frames: int = 0  # that were told
    offset: int = 0  # in the metrics file, behind them
    started: bool = False
    stop: timedelta | None = None  # the grace
    over: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class SubprocessService(TrainingService):
    capabilities = Capabilities(updates=False)

    def __init__(self, context: ExperimentContext, config: SubprocessConfig, tools: ServiceTools) -> None:
        self._context, self._limit = context, config.max_trials
        self._boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._outbox = Outbox()
        self._waiting: OrderedDict[str, TrialJobSpec] = OrderedDict()
        self._runs: dict[str, _Run] = {}
        self._seq = 0  # of the last command

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        # The core counts commands per keeper, and wants to have heard of it before a job is placed there.
        self._seq = max([0, *(keeper.last_cmd for keeper in known.keepers)])
        if not known.keepers:
            self._outbox.put([KeeperEnrolled(keeper_id=NAME, token_sha256="")])
        if [keeper.boot_id for keeper in known.keepers] != [self._boot_id]:
            self._outbox.put([KeeperBound(keeper_id=NAME, instance=NAME, boot_id=self._boot_id)])

    def adopted(self) -> None:
        for run in self._runs.values():
            self._follow(run)

    async def close(self, *, detach: bool) -> Sequence[str]:
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for task in tasks:
            task.cancel()  # the processes go on; there are none left unless ``detach``
        await asyncio.gather(*tasks, return_exceptions=True)
        self._outbox.close()
        return ()

    # ---- plain calls: no I/O, the answer is the fact to commit --------------------------------------------

    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        if job.id in self._runs or job.id in self._waiting:
            return None
        if job.place is not None:  # of before: it is followed once all are here
            run = self._runs[job.id] = self._run(job)
            run.started, run.stop = job.started, None if job.stop is None else job.stop.grace
            return None
        if len(self._runs) >= self._limit:
            self._waiting[job.id] = job
            reason = f"waits for one of the {self._limit} places that maxTrials allows"
            return JobWaiting(job_id=job.id, reason=reason)
        return self._place(job)

    def _place(self, job: TrialJobSpec) -> JobPlaced:
        self._runs[job.id] = self._run(job)
        self._seq += 1
        place = Place(keeper_id=NAME, instance=NAME, boot_id=self._boot_id)
        return JobPlaced(job_id=job.id, place=place, cmd_seq=self._seq)

    def _run(self, job: TrialJobSpec) -> _Run:
        return _Run(job, self._context.directory.joinpath(*attempt_folder(job.trial_id, job.attempt)))

    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        return None  # see ``capabilities``

    def cancel_trial_job(self, job_id: str, *, grace: timedelta) -> StopOrdered | None:
        if self._waiting.pop(job_id, None) is not None:
            return StopOrdered(job_id=job_id, cmd_seq=None, grace=grace)
        run = self._runs.get(job_id)
        if run is None or run.stop is not None or run.over.is_set():
            return None
        run.stop = grace
        self._seq += 1
        return StopOrdered(job_id=job_id, cmd_seq=self._seq, grace=grace)

    def committed(self, facts: Sequence[JobEvent]) -> None:
        for fact in facts:
            run = self._runs.get(getattr(fact, "job_id", ""))
            if run is None:
                continue
            if isinstance(fact, JobPlaced):
                self._follow(run)
            elif isinstance(fact, StopOrdered):
                run.news.set()
            elif isinstance(fact, JobEnded | JobLost):
                del self._runs[run.job.id]
                while self._waiting and len(self._runs) < self._limit:
                    self._outbox.put([self._place(self._waiting.popitem(last=False)[1])])

    # ---- one job ------------------------------------------------------------------------------------------

    def _follow(self, run: _Run) -> None:
        run.task = asyncio.create_task(self._live(run), name=run.job.id)

    async def _live(self, run: _Run) -> None:
        """From its start, or from where it is found again, to the end."""
        job, directory = run.job, run.directory
        placed = job.place.place if job.place is not None else None
        if placed is not None and placed.boot_id != self._boot_id:
            self._tell(run, JobLost(job_id=job.id, reason="the machine was restarted"))
            return
        fresh = await asyncio.to_thread(self._claim, run)
        if fresh and run.stop is not None:
            self._end(run, EndReason.NEVER_STARTED, code=None)
            return
        pid = await asyncio.to_thread(self._spawn if fresh else self._find, run)
        if not run.started:
            run.started = True
            started = JobStarted(job_id=job.id, started_at=datetime.now(UTC), pid=pid)
            self._outbox.put([started])
        await self._watch(run, pid)
        while left := await asyncio.to_thread(procs.marked, MARK, job.id):  # what it has left behind
            procs.signal_all(left, signal.SIGKILL)
            await asyncio.sleep(0.01)  # until the kernel has done it
        self._read(run, job.recorded)
        try:
            code = int((directory / ".exit").read_text())
        except (OSError, ValueError):
            code = None
        if run.stop is not None:
            self._end(run, EndReason.STOPPED, code=code)
        elif code is None:
            message = "its shell was killed, so its exit code is not known"
            self._end(run, EndReason.EXITED, code=None, message=message)
        else:
            self._end(run, EndReason.EXITED, code=code)

    def _claim(self, run: _Run) -> bool:
        """Whether it is ours to start: who makes this file starts it, and nobody else ever does."""
        (run.directory / ".nni").mkdir(parents=True, exist_ok=True)
        (run.directory / ".nni" / "metrics").touch()
        try:
            os.close(os.open(run.directory / ".claim", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _spawn(self, run: _Run) -> int:
        order = start_order(self._context, run.job, (), platform=NAME)
        (run.directory / "parameter.cfg").write_text(run.job.parameter_text)
        environ = {**self._context.environ, "NNI_SYS_DIR": str(run.directory), MARK: run.job.id}
        environ["NNI_OUTPUT_DIR"] = str(run.directory)
        for name, value in order["environment"].items():
            environ.pop(name, None)
            if value is not None:
                environ[name] = value
        command = f'cd "$NNI_CODE_DIR" && {order["command"]}'
        with open(run.directory / "stdout", "wb") as stdout, open(run.directory / "stderr", "wb") as stderr:
            process = subprocess.Popen(
                ["/bin/bash", "-c", SCRIPT, command],
                cwd=run.directory,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        (run.directory / ".pid").write_text(f"{process.pid} {procs.start_time(process.pid)}")
        process.returncode = 0  # it is waited for in ``_watch``
        return process.pid

    def _find(self, run: _Run) -> int | None:
        """The job's shell, if it still runs."""
        with contextlib.suppress(OSError, ValueError):
            pid, started = (run.directory / ".pid").read_text().split()
            return int(pid) if procs.start_time(int(pid)) == started else None
        found = procs.marked(MARK, run.job.id)  # the server was killed before it had noted the process
        return min(found, default=None)

    async def _watch(self, run: _Run, pid: int | None) -> None:
        """Tell its metrics as they come, until its shell has ended; stop it when that is wanted."""
        loop = asyncio.get_running_loop()
        watcher = Watcher()
        watcher.watch_file(str(run.directory / ".nni" / "metrics"))
        process = None
        with contextlib.suppress(ProcessLookupError, TypeError):
            process = os.pidfd_open(pid)  # type: ignore[arg-type]
        gone = process is None
        stopping: asyncio.TimerHandle | None = None

        def ended() -> None:
            nonlocal gone
            gone = True
            loop.remove_reader(process)  # type: ignore[arg-type]
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # type: ignore[arg-type]
            run.news.set()

        def grown() -> None:
            watcher.changes()
            run.news.set()

        loop.add_reader(watcher.fd, grown)
        if process is not None:
            loop.add_reader(process, ended)
        try:
            while True:
                self._read(run, run.job.recorded)
                if run.stop is not None and stopping is None and not gone:
                    stopping = loop.call_later(run.stop.total_seconds(), self._signal, run, signal.SIGKILL)
                    self._signal(run, signal.SIGTERM)
                if gone:
                    return
                await run.news.wait()
                run.news.clear()
        finally:
            loop.remove_reader(watcher.fd)
            os.close(watcher.fd)
            if process is not None:
                loop.remove_reader(process)
                os.close(process)
            if stopping is not None:
                stopping.cancel()

    def _signal(self, run: _Run, number: signal.Signals) -> None:
        procs.signal_all(procs.marked(MARK, run.job.id), number)

    def _read(self, run: _Run, recorded: int) -> None:
        """Tell the frames that are new; the core has the first ``recorded`` ones."""
        with open(run.directory / ".nni" / "metrics", "rb") as file:
            file.seek(run.offset)
            piece = file.read()
        cut = frames.cut(piece, skip=0, frames=len(piece) + 1, size=len(piece), first=True)
        events = read_frames(run.job.id, run.job.trial_id, position=run.frames, payloads=cut.payloads)
        run.offset += cut.end
        run.frames += len(events)
        self._outbox.put([event for event in events if event.position >= recorded])

    def _end(self, run: _Run, reason: EndReason, *, code: int | None, message: str | None = None) -> None:
        ended = JobEnded(
            job_id=run.job.id,
            reason=reason,
            exit_code=code,
            signal=None,
            metrics=run.frames,
            acked_cmd=self._seq,
            ended_at=datetime.now(UTC),
            message=message,
        )
        self._tell(run, ended)

    def _tell(self, run: _Run, end: JobEnded | JobLost) -> None:
        run.over.set()
        self._outbox.put([end])

    # ---- questions ----------------------------------------------------------------------------------------

    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        found = [
            TrialJobDetail(
                job_id=job_id,
                place=Place(keeper_id=NAME, instance=NAME, boot_id=self._boot_id),
                started=run.started,
                ended=run.over.is_set(),
            )
            for job_id, run in self._runs.items()
        ]
        waiting = [
            TrialJobDetail(job_id=job_id, place=None, started=False, ended=False) for job_id in self._waiting
        ]
        return found + waiting

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
        file = LogFile(self._context.directory, self._parts(job_id), name)
        try:
            if tail is not None:
                file.seek_tail(tail)
            while True:
                run = self._runs.get(job_id)
                last = not follow or run is None or run.over.is_set()  # asked first: the rest is read after
                while chunk := file.read():
                    yield chunk
                if last or run is None:
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(run.over.wait(), LOOK_S)
        finally:
            file.close()

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        return await folder_listing(self._context.directory, self._parts(job_id))

    async def read_file(
        self, job_id: str, path: str, *, keeper_id: str | None = None
    ) -> AsyncIterator[bytes]:
        async for chunk in folder_file(self._context.directory, self._parts(job_id), path):
            yield chunk

    @staticmethod
    def _parts(job_id: str) -> tuple[str, ...]:
        _, trial_id, attempt = job_id.rsplit("-", 2)
        return attempt_folder(trial_id, int(attempt))


CONFIG, SERVICE = SubprocessConfig, SubprocessService
