"""Waits of the server: each has an end, or a sentence that says what is waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, Touched
from nnimgr.store.writer import ExperimentWriter
from tests.core.lab import LIMIT_S, Lab, until, until_status
from tests.core.test_manager import Server
from tests.dispatcher.hosting import eventually
from training_services.base import KnownKeepers
from training_services.fake import FakeService, hold, started


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@dataclass(slots=True)
class SlowService(FakeService):
    """Service whose ``close`` waits until ``may_close`` is set."""

    may_close: asyncio.Event = field(default_factory=asyncio.Event)

    async def close(self, *, detach: bool) -> Sequence[str]:
        await self.may_close.wait()
        return await FakeService.close(self, detach=detach)


def slow_service(server: Server, experiment_id: str) -> SlowService:
    service = SlowService(default=[started(), hold()])
    server.assembly.labs[experiment_id] = Lab(server.home.path / experiment_id, service=service)
    return service


async def test_a_create_waits_for_no_other_experiment(server: Server) -> None:
    service = slow_service(server, "slow")
    async with server.manager() as manager:
        await manager.create(server.new("slow"))
        stopping = asyncio.create_task(manager.stop("slow", detach=False))
        await eventually(lambda: manager.get("slow").session.closing is not None)
        resuming = asyncio.create_task(manager.resume("slow"))
        await asyncio.wait_for(manager.create(server.new("other")), LIMIT_S)
        assert not resuming.done() and not stopping.done()
        service.may_close.set()
        await asyncio.gather(resuming, stopping, return_exceptions=True)
        assert manager.latest == "slow"


async def test_a_shutdown_names_the_experiments_that_it_waits_for(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nnimgr.core.managing.supervision.CLOSING_SHOWN_AFTER_S", 0.0)
    service = slow_service(server, "slow")
    async with server.manager() as manager:
        await manager.create(server.new("slow"))
        await until(manager.get("slow"), lambda: bool(service.orders))
        closing = asyncio.create_task(manager.__aexit__())
        sentence = "the shutdown waits for experiment slow to close; another SIGTERM or Ctrl-C ends the wait"
        await eventually(lambda: sentence in caplog.messages)
        assert manager.unclosed == ["slow"]
        service.may_close.set()
        await asyncio.wait_for(closing, LIMIT_S)
        assert manager.unclosed == []


async def test_nobody_waits_for_the_jobs_of_an_experiment_that_was_detached(server: Server) -> None:
    service = slow_service(server, "mine")
    service.may_close.set()
    async with server.manager() as manager:
        await manager.create(server.new("mine"))
        await until(manager.get("mine"), lambda: bool(service.orders))
    service.unavailable = ["the door cannot be opened"] * 100
    async with server.manager() as manager:
        assert manager.get("mine").state.jobs
        assert server.assembly.expected == {"mine"}
        await manager.stop("mine", detach=True)
        await eventually(lambda: not server.assembly.expected)


@pytest.fixture
def shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnimgr.core.running.waits.SHOWN_AFTER_S", 0.0)


@pytest.mark.usefixtures("shown_at_once")
async def test_a_commit_that_the_disk_does_not_complete_is_shown(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers, append = asyncio.Event(), ExperimentWriter.append

    async def slow(
        self: ExperimentWriter, state: ExperimentState, turn: Sequence[f.Recorded], touched: Touched
    ) -> None:
        await answers.wait()
        await append(self, state, turn, touched)

    lab.service.default = [started(), hold()]
    async with lab.runner(trial_concurrency=1) as runner:
        await until(runner, lambda: runner.state.counts.get(f.TrialStatus.RUNNING) == 1)
        monkeypatch.setattr(ExperimentWriter, "append", slow)
        waits = f"the disk has not completed a commit in {lab.directory}/db for 0 s"
        with caplog.at_level(logging.WARNING):
            runner.post(f.TrialNoted(trial_id=next(iter(runner.state.trials)), note="slow"))
            await eventually(lambda: waits in sentences(runner))
            await eventually(lambda: f"experiment exp: {waits}" in caplog.messages)
        assert runner.now() == f"1 of 1 slots busy; {waits}"
        answers.set()
        await eventually(lambda: waits not in sentences(runner))


@pytest.mark.usefixtures("shown_at_once")
async def test_a_service_that_opens_slowly_is_shown(lab: Lab) -> None:
    opens = asyncio.Event()

    class Slow(FakeService):
        async def open(self, known: KnownKeepers) -> None:
            await opens.wait()
            await super().open(known)

    lab.service = Slow()
    async with lab.runner(max_trial_number=1) as runner:
        waits = "the training service has been opening for 0 s"
        await eventually(lambda: waits in sentences(runner))
        assert runner.now().endswith(f"; {waits}")
        opens.set()
        await until_status(runner, f.ExperimentStatus.DONE)
        assert waits not in sentences(runner)


async def test_a_restart_of_the_tuner_is_in_the_sentence(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnimgr.core.running.algorithm_process.RESTART_DELAYS_S", (3600.0, 3600.0))
    lab.dies = 1
    async with lab.runner(trial_concurrency=1) as runner:
        waits = "; the experiment waits for the tuner, which restarts after an error (attempt 2)"
        await until(runner, lambda: runner.now().endswith(waits))


async def test_the_sentence_about_a_restart_ends_with_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnimgr.core.running.algorithm_process.RESTART_DELAYS_S", (0.0, 0.0))
    lab.dies, lab.service.default = 1, [started(), hold()]
    async with lab.runner(trial_concurrency=1) as runner:
        await until(runner, lambda: bool(lab.service.orders))
        assert "restarts" not in runner.now()


def sentences(runner: ExperimentRunner) -> list[str]:
    return [notice.sentence for notice in runner.notices.values()]
