"""Tests of the batch service, in particular when its platform fails."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PosixPath
from typing import ClassVar

import pytest

from training_services.base import (
    EndReason,
    ExperimentContext,
    JobEnded,
    JobLost,
    JobNoted,
    JobRejected,
    JobStarted,
    OwnNeeds,
    ServiceUnavailable,
    TrialJobSpec,
)
from training_services.batch.platform import BatchJob, BatchPlatform
from training_services.batch.script import NOTES, make_script
from training_services.batch.service import BatchService
from training_services.placement.needs import Wants
from training_services.testing import CoreDouble

JOB = "contract-aaaa1-1"
SET = '{"parameter_id": 0, "parameters": {}}'


class FakePlatform(BatchPlatform):
    """Platform that executes nothing; the test starts and ends its jobs."""

    name = "fake"
    poll_s = 0.01

    def __init__(self, context: ExperimentContext) -> None:
        super().__init__(context)
        self.submitted: list[BatchJob] = []
        self.cancelled: list[tuple[str, timedelta]] = []
        self.jobs: set[str] = set()
        self.error: Exception | None = None
        self.closed: set[str] = set()  # jobs that it does not take for now
        self.lost: str | None = None
        self.hangs = False
        self.piece: int | None = None  # bytes that one read returns at most
        self.called = asyncio.Event()

    async def submit(self, job: BatchJob) -> None:
        self._fail()
        if self.hangs:
            await asyncio.Event().wait()
        if job.id in self.closed:
            raise ServiceUnavailable(f"the queue does not take {job.id}")
        self.submitted.append(job)
        self.jobs.add(job.id)

    async def list(self) -> Collection[str]:
        self._fail()
        return set(self.jobs)

    async def cancel(self, job_id: str, grace: timedelta) -> None:
        self.called.set()
        self.cancelled.append((job_id, grace))
        self.jobs.discard(job_id)

    async def loss(self, job_id: str) -> str | None:
        return self.lost

    async def read(self, parts: Sequence[str], path: str, offset: int) -> bytes:
        return (await super().read(parts, path, offset))[: self.piece]

    def _fail(self) -> None:
        self.called.set()
        if self.error is not None:
            raise self.error

    # The next methods do what the script of a job does.

    def start(self) -> Path:
        """Start the last job's script, and return the folder that it works in."""
        job = self.submitted[-1]
        directory = job.directory
        (directory / ".nni").mkdir(parents=True)
        self._notes.mkdir(exist_ok=True)
        (self._notes / f"{job.id}.claim").write_text("1\n")
        return directory

    def exit(self, code: int) -> None:
        """End the trial's command; the job has not ended while the platform lists it."""
        (self._notes / f"{JOB}.exit").write_text(f"{code}\n")

    @property
    def _notes(self) -> Path:
        return self.context.directory / NOTES


def metric(value: float, *, kind: str = "PERIODICAL") -> bytes:
    fields = {"parameter_id": 0, "trial_job_id": "aaaa1", "type": kind, "sequence": 0}
    payload = json.dumps({**fields, "value": json.dumps(value)}).encode()
    return b"ME%06d%s" % (len(payload), payload)


class Bench:
    def __init__(self, directory: Path) -> None:
        self.context = ExperimentContext(
            experiment_id="contract",
            directory=directory,
            trial_command="true",
            trial_code_directory=directory,
            trial_gpu_number=None,
            python="python3",
            environ={},
        )
        self.platform = FakePlatform(self.context)
        self.core = CoreDouble()

    async def open(self) -> None:
        await self.core.open(BatchService(self.platform))

    async def reopen(self) -> None:
        await self.core.close(detach=True)
        await self.open()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is checked after each event and each call of the platform."""
        async with asyncio.timeout(60):
            while not condition():
                self.platform.called.clear()
                await self.platform.called.wait()  # the service lists the jobs again and again

    def notices(self) -> list[str]:
        assert self.core.service is not None
        return list(self.core.service.notices().values())


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    await bench.open()
    yield bench
    await bench.core.close(detach=True)


async def ended(bench: Bench) -> JobEnded:
    return await bench.core.seen(JobEnded, JOB)


async def submit(bench: Bench) -> Path:
    """Submit the job, start its script, and return the folder that it works in."""
    bench.core.submit("aaaa1")
    await bench.until(lambda: bool(bench.platform.submitted))
    directory = bench.platform.start()
    await bench.core.seen(JobStarted, JOB)
    return directory


async def test_metrics_are_read_as_they_come_and_whole_frames_only(bench: Bench) -> None:
    directory = await submit(bench)
    text = metric(0.5) + metric(0.25)
    (directory / ".nni/metrics").write_bytes(text[:-3])
    await bench.core.until(lambda: len(bench.core.metrics(JOB)) == 1)
    (directory / ".nni/metrics").write_bytes(text)
    bench.platform.exit(0)
    bench.platform.jobs.clear()
    assert (await ended(bench)).metrics == 2
    assert [each.value for each in bench.core.metrics(JOB)] == [0.5, 0.25]


async def test_a_job_says_what_it_needs(bench: Bench) -> None:
    def cpus(job: TrialJobSpec) -> float:
        if job.trial_id == "wrong":
            raise JobRejected("trialCpuNumber is not valid")
        return 4

    bench.platform.context = replace(bench.context, own_needs=OwnNeeds(cpus=cpus), trial_gpu_number=1)
    with pytest.raises(JobRejected, match="trialCpuNumber is not valid"):
        bench.core.submit("wrong")
    bench.core.submit("aaaa1")
    await bench.until(lambda: bool(bench.platform.submitted))
    assert [job.wants for job in bench.platform.submitted] == [Wants(1, 4, None)]


async def test_metrics_are_read_in_pieces_as_small_as_the_platform_gives(bench: Bench) -> None:
    bench.platform.piece = 5
    directory = await submit(bench)
    (directory / ".nni/metrics").write_bytes(metric(0.5) + metric(0.25))
    bench.platform.exit(0)
    bench.platform.jobs.clear()
    assert (await ended(bench)).metrics == 2
    assert [each.value for each in bench.core.metrics(JOB)] == [0.5, 0.25]


async def test_what_a_job_has_left_behind_is_ended_with_it(bench: Bench) -> None:
    await submit(bench)
    bench.platform.exit(3)
    end = await ended(bench)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 3)
    assert bench.platform.cancelled == [(JOB, timedelta(0))]


async def test_a_spoilt_file_of_metrics_is_said_once(bench: Bench) -> None:
    directory = await submit(bench)
    (directory / ".nni/metrics").write_bytes(metric(1) + b"no frame at all")
    note = await bench.core.seen(JobNoted, JOB)
    where = len(metric(1))
    assert (
        note.note == f"the metrics file has no frame header at byte {where}; the rest of the file is ignored"
    )
    bench.platform.exit(0)
    await ended(bench)
    assert sum(isinstance(fact, JobNoted) for fact in bench.core.of(JOB)) == 1


async def test_a_platform_that_fails_is_asked_again_and_says_why(bench: Bench) -> None:
    bench.platform.error = ServiceUnavailable("the queue is closed")
    bench.core.submit("aaaa1")
    await bench.until(lambda: bench.notices() == ["fake: the queue is closed; retrying"])
    bench.platform.error = None
    await bench.until(lambda: bool(bench.platform.submitted))
    await bench.until(lambda: not bench.notices())


async def test_a_call_that_hangs_is_named_and_repeated(bench: Bench) -> None:
    bench.platform.hangs, bench.platform.call_s = True, 0.01
    bench.core.submit("aaaa1")
    sentence = "fake: the platform's method submit() has not returned within 0.01 s; retrying"
    await bench.until(lambda: bench.notices() == [sentence])
    bench.platform.hangs = False
    await bench.until(lambda: bool(bench.platform.submitted))
    await bench.until(lambda: not bench.notices())


async def test_the_trouble_of_one_job_stays_while_another_succeeds(bench: Bench) -> None:
    bench.platform.closed = {JOB}
    bench.core.submit("aaaa1")
    await bench.until(lambda: bool(bench.notices()))
    trouble = [f"fake: the queue does not take {JOB}; retrying"]
    bench.core.submit("bbbb2")
    await bench.until(lambda: bool(bench.platform.submitted))
    bench.platform.start()
    await bench.core.seen(JobStarted, "contract-bbbb2-1")
    assert bench.notices() == trouble
    bench.platform.closed = {JOB, "contract-cccc3-1"}
    bench.core.submit("cccc3")
    await bench.until(lambda: bench.notices() == [f"{trouble[0]} (and 1 more)"])
    bench.platform.closed = set()
    await bench.until(lambda: not bench.notices())


async def test_a_job_that_can_never_run_has_failed(bench: Bench) -> None:
    bench.platform.error = JobRejected("no partition has 99 GPUs")
    bench.core.submit("aaaa1")
    end = await ended(bench)
    assert (end.reason, end.message) == (EndReason.NEVER_STARTED, "no partition has 99 GPUs")


@pytest.mark.parametrize("why", [None, "its node was drained"])
async def test_a_job_without_an_exit_code_has_failed_unless_the_platform_lost_it(
    bench: Bench, why: str | None
) -> None:
    await submit(bench)
    bench.platform.lost = why
    bench.platform.jobs.clear()
    if why is None:
        end = await ended(bench)
        assert (end.reason, end.exit_code) == (EndReason.EXITED, None)
        assert end.message == "the job ended without an exit code: it was killed, or its machine was lost"
    else:
        assert (await bench.core.seen(JobLost, JOB)).reason == why


async def test_a_job_that_vanished_before_it_began_is_tried_again(bench: Bench) -> None:
    bench.core.submit("aaaa1")
    await bench.until(lambda: bool(bench.platform.submitted))
    bench.platform.jobs.clear()
    lost = await bench.core.seen(JobLost, JOB)
    assert lost.reason == "fake no longer lists the job, which had not started"


async def test_a_stop_ends_a_job_in_the_queue_and_one_that_runs(bench: Bench) -> None:
    bench.core.submit("aaaa1")
    await bench.until(lambda: bool(bench.platform.submitted))
    bench.core.cancel(JOB)
    assert (await ended(bench)).reason is EndReason.NEVER_STARTED
    assert bench.platform.cancelled == [(JOB, timedelta(seconds=5))]


async def test_a_job_whose_submission_may_have_been_cut_off_is_submitted_again(bench: Bench) -> None:
    bench.core.submit("aaaa1")
    await bench.until(lambda: bool(bench.platform.submitted))
    bench.platform.jobs.clear()  # the server was killed before the platform had stored the job
    await bench.reopen()
    await bench.until(lambda: len(bench.platform.submitted) == 2)
    assert len({job.id for job in bench.platform.submitted}) == 1


async def test_a_job_that_has_started_is_adopted_and_not_submitted_again(bench: Bench) -> None:
    directory = await submit(bench)
    (directory / ".nni/metrics").write_bytes(metric(1))
    await bench.core.until(lambda: len(bench.core.metrics(JOB)) == 1)
    await bench.reopen()
    (directory / ".nni/metrics").write_bytes(metric(1) + metric(2, kind="FINAL"))
    bench.platform.exit(0)
    assert (await ended(bench)).metrics == 2
    assert [each.position for each in bench.core.metrics(JOB)] == [0, 1]
    assert len(bench.platform.submitted) == 1


async def test_jobs_that_the_experiment_does_not_know_are_ended(bench: Bench) -> None:
    bench.platform.jobs |= {"contract-zzzz9-1", "other-zzzz9-1"}
    await bench.reopen()
    await bench.until(lambda: bench.platform.cancelled == [("contract-zzzz9-1", timedelta(0))])
    assert bench.platform.jobs == {"other-zzzz9-1"}


class WatchedFolder(PosixPath):
    """Folder that records the threads that open files in it."""

    users: ClassVar[set[int]] = set()

    def __str__(self) -> str:
        self.users.add(threading.get_ident())
        return super().__str__()


async def test_files_are_read_outside_of_the_event_loops_thread(bench: Bench) -> None:
    (await submit(bench) / "stdout").write_text("hello")
    context = replace(bench.context, directory=WatchedFolder(bench.context.directory))
    platform = FakePlatform(context)
    WatchedFolder.users.clear()
    assert await platform.read(platform.job_folder(JOB), "stdout", 1) == b"ello"
    assert WatchedFolder.users and threading.get_ident() not in WatchedFolder.users


async def test_the_last_lines_of_a_log_and_what_follows(bench: Bench) -> None:
    directory = await submit(bench)
    bench.platform.piece = 3
    service = bench.core.service
    assert service is not None
    (directory / "stdout").write_bytes(b"one\n")
    assert [chunk async for chunk in service.read_log(JOB, "stdout", follow=False, tail=0)] == []
    (directory / "stdout").write_bytes(b"one\n10%\r20%\nthree")
    for tail, expected in (
        (0, b""),
        (1, b"three"),
        (2, b"10%\r20%\nthree"),
        (9, b"one\n10%\r20%\nthree"),
    ):
        chunks = [chunk async for chunk in service.read_log(JOB, "stdout", follow=False, tail=tail)]
        assert b"".join(chunks) == expected
    with pytest.raises(ValueError):
        [chunk async for chunk in service.read_log(JOB, "../jobs", follow=False)]


def test_the_script_runs_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    code = tmp_path / "the trial's code"
    code.mkdir()
    context = ExperimentContext(
        experiment_id="contract",
        directory=tmp_path,
        trial_command='echo "$NNI_TRIAL_JOB_ID" >> runs; cat "$NNI_SYS_DIR/parameter.cfg"; exit 7',
        trial_code_directory=code,
        trial_gpu_number=None,
        python="python3",
        environ={},
    )
    spec = TrialJobSpec(id=JOB, trial_id="aaaa1", attempt=1, sequence=0, parameter_text=SET)
    script = make_script(context, spec, tmp_path, platform="fake")
    for part in (script[: len(script) // 2], script, script):
        subprocess.run(["/bin/sh", "-s"], input=part.encode(), check=False, capture_output=True)
        if part != script:
            assert not (tmp_path / NOTES).exists()
    assert (code / "runs").read_text() == "aaaa1\n"
    assert (tmp_path / "trials/aaaa1/stdout").read_text() == SET
    assert (tmp_path / NOTES / f"{JOB}.exit").read_text() == "7\n"
