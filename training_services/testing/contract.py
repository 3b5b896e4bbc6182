"""Tests that every training service must pass."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from training_services.base import (
    CheckpointKept,
    CheckpointLost,
    CheckpointReported,
    EndReason,
    JobEnded,
    JobPlaced,
    JobStarted,
    MetricReported,
    Origin,
    TrainingService,
)
from training_services.testing.core_double import DEADLINE_S, CoreDouble
from training_services.testing.platform import Behaviour, ContractPlatform

__all__ = ["TrainingServiceContract"]


def _with_checkpoints(platform: ContractPlatform) -> TrainingService:
    """Return a new, unopened service. Skip the test if its jobs cannot continue from checkpoints."""
    service = platform.make()
    if not service.capabilities.checkpoints:
        pytest.skip("the service does not continue jobs from checkpoints (capabilities.checkpoints)")
    return service


async def _saves(core: CoreDouble, trial_id: str) -> Origin:
    """Run the trial's first attempt, and return the checkpoint that the attempt has saved."""
    core.copies = True
    job_id = core.submit(trial_id)
    saved = await core.seen(CheckpointReported, job_id)
    await core.seen(JobEnded, job_id)
    assert (saved.position, saved.number, saved.step, saved.asked) == (1, 1, 1, False)
    return core.origin(saved)


class TrainingServiceContract:
    """Tests that a training service must pass. A subclass provides the fixture ``platform``."""

    async def test_metrics_come_in_order_and_before_the_end(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        trials = ["aaaa1", "bbbb2", "cccc3"]
        for trial in trials:
            platform.behave(trial, Behaviour.REPORTS)
        for job_id in [core.submit(trial) for trial in trials]:
            end = await core.seen(JobEnded, job_id)
            kinds = [type(fact) for fact in core.of(job_id)]
            assert kinds[-5:] == [JobStarted, MetricReported, MetricReported, MetricReported, JobEnded]
            assert [metric.position for metric in core.metrics(job_id)] == [0, 1, 2]
            assert [metric.value for metric in core.metrics(job_id)] == [1.0, 2.0, 3.0]
            assert [metric.type for metric in core.metrics(job_id)] == ["PERIODICAL", "PERIODICAL", "FINAL"]
            assert (end.reason, end.exit_code, end.metrics) == (EndReason.EXITED, 0, 3)
        await core.close(detach=False)

    async def test_submitting_twice_makes_one_job(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        job_id = core.submit("aaaa1")
        assert core.service is not None
        assert core.service.submit_trial_job(core.spec("aaaa1")) is None
        await core.seen(JobEnded, job_id)
        assert sum(isinstance(fact, JobPlaced) for fact in core.of(job_id)) == 1
        assert sum(isinstance(fact, JobStarted) for fact in core.of(job_id)) == 1
        await core.close(detach=False)

    async def test_a_second_attempt_is_a_job_of_its_own(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        for attempt in (1, 2):
            job_id = core.submit("aaaa1", attempt=attempt)
            await core.seen(JobEnded, job_id)
            assert [metric.position for metric in core.metrics(job_id)] == [0, 1, 2]
        await core.close(detach=False)

    async def test_nothing_starts_before_its_place_is_committed(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        platform.behave("bbbb2", Behaviour.SLEEPS)
        # The first job starts the platform's own processes, so that the starts of later jobs are quick.
        await core.seen(JobEnded, core.submit("aaaa1"))
        assert core.service is not None
        job_id = core.submit("bbbb2", withhold=True)
        placed = await core.offered(job_id)
        assert platform.processes("bbbb2") == 0
        jobs = {job.job_id: job for job in await core.service.list_trial_jobs()}
        assert not jobs[job_id].started
        core.withheld.clear()
        core.commit(placed)
        await core.seen(JobStarted, job_id)
        core.cancel(job_id)
        await core.seen(JobEnded, job_id)
        await core.close(detach=False)

    async def test_a_stop_ends_the_whole_tree(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.SLEEPS)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        order = core.cancel(job_id)
        assert order is not None and order.cmd_seq is not None
        assert core.cancel(job_id) is None
        end = await core.seen(JobEnded, job_id)
        assert end.reason is EndReason.STOPPED
        assert platform.processes("aaaa1") == 0
        await core.close(detach=False)

    async def test_nothing_stops_what_is_unknown_or_over(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        assert core.cancel("contract-zzzz9-1") is None
        platform.behave("aaaa1", Behaviour.REPORTS)
        job_id = core.submit("aaaa1")
        await core.seen(JobEnded, job_id)
        assert core.cancel(job_id) is None
        assert core.service is not None
        assert core.service.update_trial_job(job_id, 1, "{}") is None
        order = core.service.save_trial_job(job_id, within=timedelta(seconds=1))
        assert order is None or order.cmd_seq is None
        await core.close(detach=False)

    async def test_jobs_run_on_when_detached_and_are_adopted(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.SLEEPS)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        await core.close(detach=True)
        async with asyncio.timeout(DEADLINE_S):
            while not platform.processes("aaaa1"):  # noqa: ASYNC110 (the command may be about to start)
                await asyncio.sleep(0.05)
        await core.open(platform.make())
        assert core.service is not None
        assert [job.job_id for job in await core.service.list_trial_jobs()] == [job_id]
        core.cancel(job_id)
        assert (await core.seen(JobEnded, job_id)).reason is EndReason.STOPPED
        assert sum(isinstance(fact, JobStarted) for fact in core.of(job_id)) == 1
        assert platform.processes("aaaa1") == 0
        await core.close(detach=False)

    async def test_what_happened_without_a_service_is_told_later(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS_LATER)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        await core.close(detach=True)
        platform.release("aaaa1")
        await core.open(platform.make())
        await core.seen(JobEnded, job_id)
        assert [metric.value for metric in core.metrics(job_id)] == [1.0, 2.0, 3.0]
        await core.close(detach=False)

    async def test_what_was_taken_but_not_committed_is_told_again(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS_LATER)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        core.commits = False
        platform.release("aaaa1")
        await core.until(lambda: any(isinstance(event, JobEnded) for event in core.taken))
        await core.close(detach=True)
        assert core.metrics(job_id) == []
        await core.open(platform.make())
        await core.seen(JobEnded, job_id)
        assert [metric.position for metric in core.metrics(job_id)] == [0, 1, 2]
        await core.close(detach=False)

    async def test_logs_can_be_read(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        job_id = core.submit("aaaa1")
        await core.seen(JobStarted, job_id)
        keeper_id = (await core.seen(JobPlaced, job_id)).place.keeper_id
        assert core.service is not None
        followed = core.service.read_log(job_id, "stdout", follow=True, keeper_id=keeper_id)
        assert b"".join([chunk async for chunk in followed]) == b"hello\n"
        await core.seen(JobEnded, job_id)
        for tail, expected in ((0, b""), (1, b"hello\n"), (9, b"hello\n")):
            last = core.service.read_log(job_id, "stdout", follow=False, tail=tail, keeper_id=keeper_id)
            assert b"".join([chunk async for chunk in last]) == expected
        for name, error in (("../exit", ValueError), ("trial.log", FileNotFoundError)):
            try:
                async for _ in core.service.read_log(job_id, name, follow=False, keeper_id=keeper_id):
                    break
            except error:
                continue
            raise AssertionError(f"{name!r} could be read, although it is not a log of the job")
        await core.close(detach=False)

    async def test_files_are_listed_and_read(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(platform.make())
        platform.behave("aaaa1", Behaviour.REPORTS)
        job_id = core.submit("aaaa1")
        await core.seen(JobEnded, job_id)
        keeper_id = (await core.seen(JobPlaced, job_id)).place.keeper_id
        service = core.service
        assert service is not None
        listing = await service.list_files(job_id, keeper_id=keeper_id)
        assert listing.complete
        assert {file.path: file.size for file in listing.files}["stdout"] == len(b"hello\n")
        chunks = service.read_file(job_id, "stdout", keeper_id=keeper_id)
        assert b"".join([chunk async for chunk in chunks]) == b"hello\n"
        for path, error in (
            ("../stdout", ValueError),
            ("/etc/passwd", ValueError),
            ("a/../../b", ValueError),
            ("", ValueError),
            ("no/such/file", FileNotFoundError),
        ):
            try:
                async for _ in service.read_file(job_id, path, keeper_id=keeper_id):
                    break
            except error:
                continue
            raise AssertionError(f"{path!r} could be read, although it is not a file of the job")
        await core.close(detach=False)

    async def test_a_job_continues_from_a_checkpoint(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(_with_checkpoints(platform))
        platform.behave("aaaa1", Behaviour.CONTINUES)
        origin = await _saves(core, "aaaa1")
        job_id = core.submit("aaaa1", attempt=2, origin=origin)
        end = await core.seen(JobEnded, job_id)
        assert (end.reason, end.exit_code, end.metrics) == (EndReason.EXITED, 0, 3)
        here = (await core.seen(JobPlaced, job_id)).place.keeper_id == origin.keeper_id
        assert here or any(isinstance(fact, CheckpointKept) for fact in core.facts)
        reported = [(metric.position, metric.type, metric.value) for metric in core.metrics(job_id)]
        assert reported == [(2, "PERIODICAL", 2.0), (4, "FINAL", 2.0)]
        assert core.metrics(job_id)[0].sequence == 1
        saved = await core.seen(CheckpointReported, job_id)
        assert (saved.position, saved.number, saved.step) == (3, 1, 2)
        await core.close(detach=False)

    async def test_a_job_ends_if_its_checkpoint_is_missing(self, platform: ContractPlatform) -> None:
        core = CoreDouble()
        await core.open(_with_checkpoints(platform))
        platform.behave("aaaa1", Behaviour.CONTINUES)
        origin = await _saves(core, "aaaa1")
        missing = replace(origin, number=9)
        core.keep("aaaa1", missing)
        job_id = core.submit("aaaa1", attempt=2, origin=missing)
        # A service whose job waits for a copy says before the start that there is nothing to copy.
        await core.until(
            lambda: (
                any(isinstance(fact, CheckpointLost) for fact in core.facts)
                or any(isinstance(fact, JobEnded) for fact in core.of(job_id))
            )
        )
        for end in core.of(job_id):
            if isinstance(end, JobEnded):
                assert (end.reason, end.metrics) == (EndReason.CHECKPOINT_LOST, 0)
        assert not any(isinstance(fact, JobStarted) for fact in core.of(job_id))
        await core.close(detach=False)
