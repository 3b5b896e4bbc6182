"""NNIManager: the experiments of one server, and what happens to them when the server ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from nnimgr.config import ConfigError, ExperimentConfig
from nnimgr.core.managing.assembly import Assembly
from nnimgr.core.managing.manager import ExperimentConflict, NewExperiment, NNIManager, UnknownExperiment
from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.core.running.search import Search
from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, trial_id_of
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path
from tests.core.lab import LIMIT_S, SPACE, Lab, until, until_status
from tests.dispatcher.hosting import eventually
from training_services.base import TrainingService
from training_services.fake import hold, started

E = f.ExperimentStatus


class FakeAssembly(Assembly):
    """An assembly with scripted services and children. Each experiment has its own lab."""

    def __init__(self) -> None:
        self.labs: dict[str, Lab] = {}
        self.expected: set[str] = set()

    def expect(self, experiment_ids: Iterable[str]) -> None:
        self.expected.update(experiment_ids)

    def holds_nothing(self, experiment_id: str) -> None:
        self.expected.discard(experiment_id)

    def lab(self, experiment_id: str, directory: Path) -> Lab:
        return self.labs.setdefault(experiment_id, Lab(directory))

    def service(self, state: ExperimentState, directory: Path, config: ExperimentConfig) -> TrainingService:
        return self.lab(state.id, directory).service

    def search(self, state: ExperimentState, directory: Path, runner: ExperimentRunner) -> Search:
        return self.lab(state.id, directory).search(state, runner)


class Server:
    """Managers that use one home, one after the other."""

    def __init__(self, path: Path) -> None:
        self.home = Home(path / "home")
        self.assembly = FakeAssembly()
        self.code = path / "code"
        self.code.mkdir()

    @contextlib.asynccontextmanager
    async def manager(self, port: int = 8080) -> AsyncIterator[NNIManager]:
        made = NNIManager(home=self.home, port=port, assembly=self.assembly)
        async with made:
            yield made

    def new(self, experiment_id: str | None = None, **config: Any) -> NewExperiment:
        return NewExperiment(
            id=experiment_id,
            search_space=SPACE,
            environ={"SECRET": "hunter2"},
            config={
                "trialCommand": "true",
                "trialCodeDirectory": str(self.code),
                "trialConcurrency": 1,
                "maxTrialNumber": 1,
                "experimentWorkingDirectory": str(self.home.path),
                "tuner": {"name": "Random"},
                "trainingService": {"platform": "local"},
            }
            | config,
        )


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


async def test_create_runs_and_the_index_follows(server: Server) -> None:
    async with server.manager() as manager:
        experiment_id, created = await manager.create(
            server.new(experimentName="mine", tuner={"name": "TPE"})
        )
        assert created and manager.get(experiment_id).state.minimises
        await until_status(manager.get(experiment_id), E.DONE)
        assert manager.summary(experiment_id).counts == {"SUCCEEDED": 1}
        assert not manager.idle
        await manager.stop(experiment_id, detach=False)
        assert manager.idle
        await asyncio.wait_for(manager.wait_idle(), LIMIT_S)
    entry = Index(server.home).entries()[experiment_id]
    assert (entry.status, entry.name, entry.platform, entry.port) == ("STOPPED", "mine", "local", 8080)
    assert entry.ended_at is not None
    assert (server.home.path / "_latest").resolve() == entry.directory


async def test_who_follows_all_experiments_hears_of_the_last_fact_of_each(server: Server) -> None:
    async with server.manager() as manager:
        follower = manager.changes.follow()
        first, _ = await manager.create(server.new())
        second, _ = await manager.create(server.new())
        heard: dict[str, int] = {}
        for experiment_id in (first, second):
            await until_status(manager.get(experiment_id), E.DONE)
        while heard != {id: manager.get(id).last_number for id in (first, second)}:
            heard |= await asyncio.wait_for(follower.take(), LIMIT_S)


async def test_a_question_about_an_experiment_waits_until_it_is_created(server: Server) -> None:
    async with server.manager() as manager:
        creating = asyncio.create_task(manager.create(server.new("mine")))
        await eventually(lambda: "mine" in Index(server.home).entries())  # others know it from now on
        assert manager.find("mine") is None
        await asyncio.wait_for(manager.locks.created("mine"), LIMIT_S)
        assert manager.find("mine") is not None and manager.reader("mine").experiment() is not None
        await creating


async def test_the_environment_is_kept_in_one_private_file_only(server: Server) -> None:
    async with server.manager() as manager:
        experiment_id, _ = await manager.create(server.new())
        await until_status(manager.get(experiment_id), E.DONE)
    directory = server.home.path / experiment_id
    path = directory / "environ.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["environ"] == {"SECRET": "hunter2"}
    holders = [p for p in directory.rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]
    assert holders == [path]


async def test_the_same_experiment_twice_is_one(server: Server) -> None:
    async with server.manager() as manager:
        assert await manager.create(server.new("mine")) == ("mine", True)
        assert await manager.create(server.new("mine")) == ("mine", False)
        both = await asyncio.gather(*(manager.create(server.new("twice")) for _ in range(2)))
        assert sorted(both) == [("twice", False), ("twice", True)]
        with pytest.raises(ExperimentConflict, match="experiment mine exists with another configuration"):
            await manager.create(server.new("mine", maxTrialNumber=7))
        with pytest.raises(ValueError, match="cannot be an experiment id"):
            await manager.create(server.new("no/way"))


async def test_bad_configuration_leaves_nothing_behind(server: Server) -> None:
    async with server.manager() as manager:
        with pytest.raises(ConfigError, match="trialConcurrency"):
            await manager.create(server.new("mine", trialConcurrency=0))
        with pytest.raises(UnknownExperiment):
            manager.get("mine")
    assert Index(server.home).entries() == {}
    assert not (server.home.path / "mine").exists()


async def test_running_experiments_are_reopened_and_ended_ones_are_not(server: Server) -> None:
    running = Lab(server.home.path / "running")
    running.service.default = [started(), hold()]
    server.assembly.labs["running"] = running
    async with server.manager() as manager:
        await manager.create(server.new("running"))
        await manager.create(server.new("done"))
        await until_status(manager.get("done"), E.DONE)
        await until(manager.get("running"), lambda: running.service.running(trial_id_of("running", 0)) == 1)
    async with server.manager(port=9090) as manager:
        with pytest.raises(RequestRefused, match="is not open on this server: resume it first"):
            manager.get("running")
        assert {summary.id: summary.served for summary in manager.summaries()} == {
            "running": False,
            "done": False,
        }
    async with server.manager() as manager:
        runner = manager.get("running")
        await until(runner, lambda: runner.session.service is not None)
        running.service.resume(f"running-{trial_id_of('running', 0)}-1")
        with pytest.raises(RequestRefused):
            manager.get("done")
        assert await manager.stop("done", detach=False) == []
        await manager.stop("running", detach=False)
    assert [order for order, _ in running.service.orders].count("start") == 1


async def test_resume_brings_back_a_stopped_experiment(server: Server) -> None:
    lab = Lab(server.home.path / "mine")
    lab.service.default = [started(), hold()]
    server.assembly.labs["mine"] = lab
    async with server.manager() as manager:
        await manager.create(server.new("mine"))
        await until(manager.get("mine"), lambda: bool(lab.service.orders))
        with pytest.raises(RequestRefused, match="is running already"):
            await manager.resume("mine")
        await manager.stop("mine", detach=False)
        lab.service.default = [started()]
        await manager.resume("mine")
        await until(manager.get("mine"), lambda: len(manager.get("mine").state.trials) == 1)
        await manager.stop("mine", detach=False)
    async with server.manager(port=9090) as manager:
        await manager.resume("mine")
        assert manager.get("mine").state.status is E.DRAINING
        with pytest.raises(UnknownExperiment, match="there is no experiment nobody"):
            await manager.resume("nobody")
    assert Index(server.home).entries()["mine"].port == 9090


async def test_a_runner_whose_commit_failed_is_started_anew(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnimgr.core.managing.supervision.RESTART_S", (0.01, 0.01))
    lab = Lab(server.home.path / "mine")
    lab.service.default = [started(), hold()]
    server.assembly.labs["mine"] = lab
    async with server.manager() as manager:
        await manager.create(server.new("mine", maxTrialNumber=9))
        first = manager.get("mine")
        await until(first, lambda: first.state.counts.get(f.TrialStatus.RUNNING) == 1)
        path = database_path(server.home.path / "mine")
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("ALTER TABLE facts RENAME TO hidden")
            with pytest.raises(RequestRefused):
                await first.add_trial({"x": 1})
            await eventually(lambda: "no such table" in (manager.trouble("mine") or ""))
            with pytest.raises(RequestRefused, match="is not running: the database"):
                manager.get("mine")
            other.execute("ALTER TABLE hidden RENAME TO facts")

        await eventually(lambda: manager.find("mine") not in (None, first))
        again = manager.get("mine")
        await again.opened()
        assert (await again.add_trial({"x": 1})).sequence == 1


async def test_stop_after_detach_ends_what_ran_on(server: Server) -> None:
    lab = Lab(server.home.path / "mine")
    lab.service.default = [started(), hold()]
    server.assembly.labs["mine"] = lab
    first = trial_id_of("mine", 0)
    async with server.manager() as manager:
        await manager.create(server.new("mine"))
        await until(manager.get("mine"), lambda: lab.service.running(first) == 1)
        assert await manager.stop("mine", detach=True) == [first]
        assert lab.service.running(first) == 1
    async with server.manager() as manager:
        assert await manager.stop("mine", detach=False) == []
        assert lab.service.running(first) == 0
        assert manager.get("mine").state.status is E.STOPPED


async def test_a_manager_is_idle_after_a_stop_of_a_stopped_experiment(server: Server) -> None:
    async with server.manager() as manager:
        await manager.create(server.new("mine"))
        await manager.stop("mine", detach=False)
    async with server.manager() as manager:
        idle = asyncio.create_task(manager.wait_idle())
        await manager.stop("mine", detach=False)
        await asyncio.wait_for(idle, LIMIT_S)


async def test_a_create_that_cannot_commit_leaves_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    async with server.manager() as manager:
        with monkeypatch.context() as broken:
            broken.setattr("nnimgr.store.writer.ExperimentWriter.append", refuse)
            with pytest.raises(StoreError, match="the disk is full"):
                await manager.create(server.new("mine"))
        assert Index(server.home).entries() == {}
        assert not (server.home.path / "mine").exists()
        assert await manager.create(server.new("mine")) == ("mine", True)


async def test_one_broken_database_does_not_keep_the_others_from_being_served(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnimgr.core.managing.supervision.RESTART_S", (0.01, 0.01))
    for name in ("empty", "good"):
        lab = Lab(server.home.path / name)
        lab.service.default = [started(), hold()]
        server.assembly.labs[name] = lab
    async with server.manager() as manager:
        await manager.create(server.new("good"))
        await manager.create(server.new("empty"))
    path = database_path(server.home.path / "empty")
    kept = path.read_bytes()
    path.with_suffix(".sqlite-wal").unlink(missing_ok=True)
    path.write_bytes(b"")  # as if the server was killed right after it created the file
    async with server.manager() as manager:
        assert manager.get("good").state.id == "good"
        with pytest.raises(RequestRefused, match="is empty; put a copy of it back"):
            manager.get("empty")
        path.write_bytes(kept)
        await eventually(lambda: manager.find("empty") is not None)


async def test_an_experiment_whose_folder_is_deleted_is_closed_and_can_be_deleted(server: Server) -> None:
    async with server.manager() as manager:
        await manager.create(server.new("mine"))
        await manager.create(server.new("other"))
        shutil.rmtree(server.home.path / "mine")
        with pytest.raises(RequestRefused, match="was deleted; put a copy of it back"):
            await manager.stop("mine", detach=False)
        await eventually(lambda: Index(server.home).entries()["mine"].status == "STOPPED")
        assert manager.find("mine") is None and not (server.home.path / "mine").exists()
        assert await manager.delete("mine") == []
        assert list(Index(server.home).entries()) == ["other"]


async def test_an_experiment_whose_folder_is_gone_at_the_start_can_be_deleted(server: Server) -> None:
    lab = Lab(server.home.path / "mine")
    lab.service.default = [started(), hold()]
    server.assembly.labs["mine"] = lab
    async with server.manager() as manager:
        await manager.create(server.new("mine"))
    shutil.rmtree(server.home.path / "mine")
    async with server.manager() as manager:
        assert manager.find("mine") is None and not (server.home.path / "mine").exists()
        assert await manager.delete("mine") == []
        assert Index(server.home).entries() == {}


async def test_a_resume_is_in_the_index_before_it_is_answered(server: Server) -> None:
    async with server.manager() as manager:
        await manager.create(server.new("mine", maxTrialNumber=5))
        await manager.stop("mine", detach=False)
    async with server.manager() as manager:
        resuming = asyncio.create_task(manager.resume("mine"))
        await eventually(lambda: manager.find("mine") is not None)
        assert Index(server.home).entries()["mine"].status != "STOPPED"
        await resuming


@pytest.mark.parametrize("wish", ["resume", "view"])
async def test_a_stopped_experiment_whose_folder_was_moved_is_found_again(server: Server, wish: str) -> None:
    async with server.manager() as manager:
        await manager.create(server.new("mine", maxTrialNumber=5))
        await manager.stop("mine", detach=False)
        old = manager.directory("mine")
        there = old.parent / "there" / "mine"
        there.parent.mkdir()
        old.rename(there)
        Index(server.home).update("mine", log_dir=there.parent)
        await getattr(manager, wish)("mine")
        assert manager.directory("mine") == there and not old.exists()
        assert manager.reader("mine").experiment().config["maxTrialNumber"] == 5
        assert manager.viewed("mine") is (wish == "view")


async def test_an_experiment_that_is_done_again_at_once_is_done_in_the_index(server: Server) -> None:
    async with server.manager() as manager:
        await manager.create(server.new("mine"))
        await until_status(manager.get("mine"), E.DONE)
        await eventually(lambda: Index(server.home).entries()["mine"].status == "DONE")
        await manager.resume("mine")
        assert manager.get("mine").state.status is E.DONE
    entry = Index(server.home).entries()["mine"]
    assert (entry.status, entry.ended_at is None) == ("DONE", False)


async def test_the_experiment_that_a_client_means_who_knows_of_one(server: Server) -> None:
    async with server.manager() as manager:
        assert (manager.latest, manager.served()) == (None, {})
        for name in ("first", "second"):
            await manager.create(server.new(name))
            assert manager.latest == name
            await until_status(manager.get(name), E.DONE)
        await manager.stop("first", detach=False)
        assert manager.latest == "second"
        assert manager.served() == {"first": "STOPPED", "second": "DONE"}
        await manager.resume("first")
        assert manager.latest == "first"
        with pytest.raises(ExperimentConflict):
            await manager.create(server.new("second", experimentName="another"))
        assert manager.latest == "first"
        await until_status(manager.get("first"), E.DONE)
        await manager.stop("second", detach=False)
    async with server.manager() as manager:
        assert (manager.latest, manager.served()) == ("second", {})  # no experiment is open
        await manager.resume("second")
        assert (manager.latest, list(manager.served())) == ("second", ["second"])
    async with server.manager(9090) as other:
        assert other.latest is None


async def test_labels_of_an_experiment_that_is_open_and_of_one_that_is_not(server: Server) -> None:
    async with server.manager() as manager:
        first, _ = await manager.create(server.new())
        await until_status(manager.get(first), E.DONE)
        await manager.stop(first, detach=False)
    async with server.manager() as manager:
        second, _ = await manager.create(server.new())
        await until_status(manager.get(second), E.DONE)
        follower = manager.changes.follow()
        await manager.label(first, tags=["a", "b", "a"])
        await manager.label(second, archived=True)
        assert await follower.take() == {first: 0, second: manager.get(second).state.number}
        assert (manager.summary(first).tags, manager.summary(first).archived) == (("a", "b"), False)
        assert (manager.summary(second).tags, manager.summary(second).archived) == ((), True)
        with pytest.raises(UnknownExperiment):
            await manager.label("nobody", archived=True)
    async with server.manager() as manager:
        assert manager.summary(first).tags == ("a", "b")
        assert manager.summary(second).archived


async def test_what_others_change_in_the_index_is_seen(server: Server) -> None:
    async with server.manager() as manager, server.manager(9090) as other:
        ours, _ = await manager.create(server.new())
        theirs, _ = await other.create(server.new(trialConcurrency=2))
        await manager.label(theirs, archived=True)  # this server has not heard of the experiment yet
        assert manager.summary(theirs).archived
        await until_status(manager.get(ours), E.DONE)
        await manager._notes.settled()
        await manager.look_again()
        index = Index(server.home)
        index.update(ours, tag=("mine",), status="WRONG")
        assert [found.id for found in manager.summaries()] == [ours, theirs]
        await manager.look_again()
        summary = manager.summary(ours)
        assert (summary.tags, summary.status, summary.port) == (("mine",), E.DONE, 8080)
        assert manager.served()[ours] == "DONE"
        await until_status(other.get(theirs), E.DONE)
        await other.stop(theirs, detach=False)
        await manager.look_again()
        seen = manager.stored.fill(manager.summary(theirs))
        assert (seen.served, seen.port, seen.trial_concurrency, seen.max_trial_number) == (False, 9090, 2, 1)
        assert seen.counts == {"SUCCEEDED": 1} and seen.best_trial_id is not None
        assert (seen.status, seen.optimize_mode) == (E.STOPPED, "maximize")
        assert seen.owner is not None and seen.reason == "it was stopped after it was DONE: 1 of 1 trials"
        earlier = "status = 'DONE', reason = 'done: all 1 trials were created'"
        path = database_path(server.home.path / theirs)
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            assert database.execute(f"UPDATE experiments SET {earlier}").rowcount == 1
        assert manager.stored.fill(manager.summary(theirs)).reason == "all 1 trials were created"
        await other.delete(theirs)
        await manager.look_again()
        assert [found.id for found in manager.summaries()] == [ours]


async def test_an_experiment_that_others_have_brought_is_found(server: Server, tmp_path: Path) -> None:
    async with server.manager() as manager, server.manager(9090) as other:
        with pytest.raises(UnknownExperiment):
            manager.reader("theirs")
        await other.create(server.new("theirs"))
        await manager.look_for("theirs")
        assert len(manager.reader("theirs").trials()[1]) <= 1
        await until_status(other.get("theirs"), E.DONE)
        await other.stop("theirs", detach=False)
        path = manager.reader("theirs").path
        moved = tmp_path / "theirs"
        await asyncio.to_thread(shutil.move, path.parent.parent, moved)
        Index(server.home).update("theirs", log_dir=moved.parent)
        await manager.look_for("theirs")
        assert manager.reader("theirs").path == database_path(moved)
        assert manager.reader("theirs").trials()[1]
        await other.look_for("theirs")
        await other.delete("theirs")
        await manager.look_for("theirs")
        with pytest.raises(UnknownExperiment):
            manager.reader("theirs")


async def test_an_index_that_is_damaged_hides_nothing(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.manager() as manager:
        experiment_id, _ = await manager.create(server.new())
        await until_status(manager.get(experiment_id), E.DONE)
        whole = ""
        async with asyncio.timeout(10):
            while "DONE" not in whole:  # the end is noted after the service has closed
                await manager._notes.settled()
                whole = await asyncio.to_thread(server.home.index_path.read_text)
        await asyncio.to_thread(server.home.index_path.write_text, "{")
        await manager.look_again()
        await manager.look_again()
        assert [found.id for found in manager.summaries()] == [experiment_id]
        assert caplog.text.count("could not be read: The index") == 1
        await asyncio.to_thread(server.home.index_path.write_text, whole)
