"""Stopped experiments: viewing changes nothing, and deleting leaves nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import fcntl
import hashlib
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from nnimgr.core.managing.folder import delete_experiment, delete_folder
from nnimgr.core.managing.manager import NNIManager, UnknownExperiment
from nnimgr.core.running.requests import RequestRefused
from nnimgr.index import Index, IndexEntry
from nnimgr.rules import facts as f
from nnimgr.store.errors import StoreError
from nnimgr.store.location import database_path
from tests.core.lab import LIMIT_S, until_status
from tests.core.test_manager import Server
from training_services.fake import hold, started

E = f.ExperimentStatus


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


async def stopped(manager: NNIManager, server: Server) -> str:
    """Create an experiment with one trial, stop it when it is done, and return its id."""
    experiment_id, _ = await manager.create(server.new())
    await until_status(manager.get(experiment_id), E.DONE)
    await manager.stop(experiment_id, detach=False)
    return experiment_id


def digest(directory: Path) -> dict[str, str]:
    """Return a hash of each file below a directory by its path, without SQLite's log and shared memory."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


@pytest.mark.parametrize("port", [8080, 8081])
async def test_what_is_viewed_can_be_read_and_does_not_change(server: Server, port: int) -> None:
    async with server.manager() as manager:
        experiment_id = await stopped(manager, server)
    entry = Index(server.home).entries()[experiment_id]
    before = digest(entry.directory)
    async with server.manager(port) as manager:
        assert not manager.viewed(experiment_id)
        await manager.view(experiment_id)
        await manager.view(experiment_id)
        assert manager.viewed(experiment_id) and not manager.idle
        summary = manager.summary(experiment_id)
        assert (summary.status, summary.served, summary.port) == ("VIEWED", True, port)
        assert [row.final_text for page in manager.reader(experiment_id).results() for row, _, _ in page] == [
            "1.0"
        ]
        assert manager.reader(experiment_id).trials()[0] == 1
        with pytest.raises(RequestRefused, match="only viewed: it cannot be changed"):
            manager.get(experiment_id)
        with pytest.raises(RequestRefused, match="only viewed: stop it first"):
            await manager.resume(experiment_id)
        shown = Index(server.home).entries()[experiment_id]
        assert (shown.status, shown.port, shown.pid) == ("VIEWED", port, os.getpid())
        assert await manager.stop(experiment_id, detach=False) == []
        assert manager.idle and not manager.viewed(experiment_id)
        await asyncio.wait_for(manager.wait_idle(), LIMIT_S)
        assert Index(server.home).entries()[experiment_id].status == "STOPPED"
    assert digest(entry.directory) == before


async def test_one_that_is_stopped_but_still_open_is_let_go_of(server: Server) -> None:
    async with server.manager() as manager:
        experiment_id = await stopped(manager, server)
        assert manager.find(experiment_id) is not None
        await manager.view(experiment_id)
        assert manager.find(experiment_id) is None
        await manager.stop(experiment_id, detach=False)
        await manager.resume(experiment_id)
        assert manager.find(experiment_id) is not None
        await manager.stop(experiment_id, detach=False)


async def test_a_view_waits_for_the_end_of_the_turn_that_stops(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.manager() as manager:
        experiment_id, _ = await manager.create(server.new())
        runner = manager.get(experiment_id)
        await until_status(runner, E.DONE)
        committed, viewing = asyncio.Event(), asyncio.Event()
        keep, turn_over = runner.session.keep, runner.turn_over

        async def keep_late(*, needed: bool, spawn: Any) -> None:
            if runner.state.status is E.STOPPED:
                committed.set()
                await viewing.wait()
            await keep(needed=needed, spawn=spawn)

        async def turn_over_at_last() -> None:
            viewing.set()
            await turn_over()

        monkeypatch.setattr(runner.session, "keep", keep_late)
        monkeypatch.setattr(runner, "turn_over", turn_over_at_last)
        stop = asyncio.create_task(manager.stop(experiment_id, detach=False))
        async with asyncio.timeout(LIMIT_S):
            await committed.wait()
            await manager.view(experiment_id)
            assert manager.viewed(experiment_id)
            await stop
        await manager.stop(experiment_id, detach=False)


async def test_a_view_outlives_its_server_and_still_runs_nothing(server: Server) -> None:
    async with server.manager() as manager:
        experiment_id = await stopped(manager, server)
        await manager.view(experiment_id)
    async with server.manager() as manager:
        assert manager.viewed(experiment_id) and manager.find(experiment_id) is None
        assert not manager.idle
    async with server.manager(8081) as other:  # the first server's lock is free, as after a kill
        await other.view(experiment_id)
        assert Index(server.home).entries()[experiment_id].port == 8081


async def test_only_what_was_stopped_is_viewed_or_deleted(server: Server) -> None:
    async with server.manager() as manager:
        experiment_id, _ = await manager.create(server.new())
        await until_status(manager.get(experiment_id), E.DONE)
        with pytest.raises(RequestRefused, match="only a stopped experiment can be viewed"):
            await manager.view(experiment_id)
        with pytest.raises(RequestRefused, match="only a stopped experiment can be deleted"):
            await manager.delete(experiment_id)
        for wish in (manager.view, manager.delete):
            with pytest.raises(UnknownExperiment):
                await wish("nothing")
        await manager.stop(experiment_id, detach=False)
        await manager.view(experiment_id)
        with pytest.raises(RequestRefused, match=r"is VIEWED: only a stopped experiment can be deleted"):
            await manager.delete(experiment_id)
        await manager.stop(experiment_id, detach=False)


@pytest.mark.parametrize("open_still", [True, False])
async def test_delete_leaves_nothing(server: Server, open_still: bool) -> None:
    async with server.manager() as manager:
        experiment_id = await stopped(manager, server)
        directory = manager.directory(experiment_id)
        (directory / "trials" / "abcde").mkdir(parents=True)
        (directory / "trials" / "abcde" / "link").symlink_to(server.code)
        if open_still:
            await manager.delete(experiment_id)
            assert manager.idle
    if not open_still:
        async with server.manager(8081) as other:
            await other.delete(experiment_id)
            await asyncio.wait_for(other.wait_idle(), LIMIT_S)
            with pytest.raises(UnknownExperiment):
                other.summary(experiment_id)
    assert not directory.exists() and server.code.exists()
    assert not (server.home.path / "_latest").is_symlink()
    assert Index(server.home).entries() == {}


async def test_one_whose_trials_run_on_is_not_deleted(server: Server) -> None:
    async with server.manager() as manager:
        server.assembly.lab("exp", server.home.path / "exp").service.default = [started(), hold()]
        experiment_id, _ = await manager.create(server.new("exp"))
        runner = manager.get(experiment_id)
        while runner.state.counts.get(f.TrialStatus.RUNNING) != 1:
            await asyncio.wait_for(runner.committed_after(runner.last_number), LIMIT_S)
        await manager.stop(experiment_id, detach=True)
        with pytest.raises(RequestRefused, match="1 trial of experiment exp still runs: stop it first"):
            await manager.delete(experiment_id)
        await manager.stop(experiment_id, detach=False)
        await manager.delete(experiment_id)


async def test_while_one_is_deleted_others_begin_and_it_does_not(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()

    def slowly(index: Index, entry: IndexEntry) -> list[str]:
        begun.set()
        assert go.wait(LIMIT_S)
        return delete_experiment(index, entry)

    monkeypatch.setattr("nnimgr.core.managing.stopped_experiments.delete_experiment", slowly)
    async with server.manager() as manager:
        experiment_id = await stopped(manager, server)
        async with asyncio.timeout(LIMIT_S):
            deleting = asyncio.create_task(manager.delete(experiment_id))
            await asyncio.to_thread(begun.wait, LIMIT_S)
            for wish in (
                manager.resume(experiment_id),
                manager.view(experiment_id),
                manager.delete(experiment_id),
                manager.stop(experiment_id, detach=False),
                manager.create(server.new(experiment_id)),
            ):
                with pytest.raises(RequestRefused, match="is being deleted"):
                    await wish
            other = await stopped(manager, server)
            manager.reader(experiment_id)  # a reader is open while the experiment is deleted
            go.set()
            await deleting
            elsewhere = str(server.home.path / "elsewhere")
            await manager.create(server.new(experiment_id, experimentWorkingDirectory=elsewhere))
            assert manager.reader(experiment_id).experiment().experiment_id == experiment_id
        assert set(Index(server.home).entries()) == {experiment_id, other}


def test_a_folder_that_another_server_has_open_stays(tmp_path: Path) -> None:
    database = database_path(tmp_path / "exp")
    database.parent.mkdir(parents=True)
    with open(database.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RequestRefused, match="exp is open in another server"):
            delete_folder(tmp_path / "exp")
        assert database.parent.exists()
    delete_folder(tmp_path / "exp")
    delete_folder(tmp_path / "exp")
    assert not (tmp_path / "exp").exists()


async def test_a_deletion_that_fails_in_the_midst_can_be_asked_for_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = shutil.rmtree

    def fail_at_the_trials(path: str, **options: Any) -> None:
        if path.endswith("/trials"):
            raise OSError(errno.EIO, "Input/output error", path)
        remove(path, **options)

    async with server.manager() as manager:
        experiment_id = await stopped(manager, server)
        directory = manager.directory(experiment_id)
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", fail_at_the_trials)
            with pytest.raises(OSError, match="Input/output error"):
                await manager.delete(experiment_id)
        kept = ("trials", "log", "environ.json")  # with which it can still be shown and resumed
        assert database_path(directory).exists() and all((directory / name).exists() for name in kept)
        assert list(Index(server.home).entries()) == [experiment_id]
        await manager.delete(experiment_id)
        assert not directory.exists() and Index(server.home).entries() == {}


def test_what_is_no_experiments_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    mine = tmp_path / "mine"
    assert delete_folder(mine) == [f"{mine} has no database, so the files in it stay"]
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for path in (tmp_path / "link", Path("exp")):
        with pytest.raises(RequestRefused, match="is not the folder of an experiment"):
            delete_folder(path)
    assert (tmp_path / "mine" / "thesis.tex").exists()


async def test_an_entry_whose_folder_is_gone_can_be_deleted(server: Server) -> None:
    async with server.manager() as manager:
        experiment_id = await stopped(manager, server)
        entry = Index(server.home).entries()[experiment_id]
        Index(server.home).put(dataclasses.replace(entry, id="gone", log_dir="/nowhere"))
        with pytest.raises(RequestRefused, match="folder of experiment gone, /nowhere/gone, was deleted"):
            await manager.view("gone")
        await manager.delete("gone")
        Index(server.home).put(dataclasses.replace(entry, id="spoilt"))
        spoilt = entry.directory.with_name("spoilt")
        (spoilt / "trials").mkdir(parents=True)
        with pytest.raises(RequestRefused, match="database of experiment spoilt is no longer in its folder"):
            await manager.view("spoilt")
        assert await manager.delete("spoilt") == [f"{spoilt} has no database, so the files in it stay"]
        assert (spoilt / "trials").exists()
    assert list(Index(server.home).entries()) == [experiment_id]


@pytest.mark.parametrize("busy", ["db", "tensorboard", "."])
def test_files_that_appear_during_the_removal_do_not_prevent_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: str
) -> None:
    """Readers of the database and a starting TensorBoard create such files."""
    for folder in ("db", "tensorboard"):
        (tmp_path / "exp" / folder).mkdir(parents=True)
    (tmp_path / "exp" / "db" / "nnimgr.sqlite").touch()
    place, late = tmp_path / "exp" / busy, ["one", "two"]
    remove = os.rmdir

    def too_early(path: str | Path, **where: int) -> None:
        if late and Path(path) == place:
            (place / late.pop()).touch()
        remove(path, **where)

    monkeypatch.setattr(os, "rmdir", too_early)
    delete_folder(tmp_path / "exp")
    assert not late and not (tmp_path / "exp").exists()


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
async def test_a_damaged_database_is_not_viewed(server: Server, content: bytes) -> None:
    async with server.manager() as manager:
        experiment_id = await stopped(manager, server)
    path = database_path(server.home.path / experiment_id)
    path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
    path.write_bytes(content)
    async with server.manager() as manager:
        with pytest.raises(StoreError, match="cannot be read"):
            await manager.view(experiment_id)
        assert not manager.viewed(experiment_id)


async def test_a_stopped_experiment_can_be_deleted_although_the_disk_is_full(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    async with server.manager() as manager:
        await manager.create(server.new("mine"))
        await manager.stop("mine", detach=False)
        monkeypatch.setattr("nnimgr.store.writer.ExperimentWriter._write_snapshot", refuse)
        await asyncio.wait_for(manager.delete("mine"), LIMIT_S)
        assert Index(server.home).entries() == {}


async def test_a_damaged_environment_is_named(server: Server) -> None:
    async with server.manager() as manager:
        await manager.create(server.new("mine"))
        await manager.stop("mine", detach=False)
    path = server.home.path / "mine" / "environ.json"
    async with server.manager() as manager:
        for text in ("{", "[]", '{"environ": {}}'):
            path.write_text(text)
            with pytest.raises(OSError, match="the file is damaged; put a copy of it back") as caught:
                await manager.resume("mine", server.new())
            assert caught.value.filename == str(path)
