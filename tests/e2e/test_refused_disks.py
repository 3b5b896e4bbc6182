"""Disks that take no writing at all, and a database that this version must not touch."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
from pathlib import Path

import pytest

from nnimgr.index import Index
from nnimgr.store.schema import SCHEMA_VERSION
from tests.e2e.disks import disk
from tests.e2e.scene import Scene, scene
from tests.processes import kill, of_home
from tests.server.harness import serving

READ_ONLY = "Read-only file system"
TRIAL = "echo $NNIMGR_JOB_ID >> {0}/starts; until [ -e {0}/go ]; do sleep 0.02; done"


def power_off(here: Scene, *, but_the_server: bool = False) -> None:
    """Kill all of this home, so that no file is open: only then can a disk be made read-only."""
    spared = here.server.process.pid if but_the_server else 0
    while left := [process.pid for process in of_home(here.server.home.path) if process.pid != spared]:
        kill(*left)


def assert_run_again(here: Scene) -> None:
    """The trial's first attempt was lost with its host, its second one has run, each once."""
    (here.directory / "go").touch()
    (trial,) = here.done()
    assert (trial["status"], trial["attempt"]) == ("SUCCEEDED", 2)
    starts = (here.directory / "starts").read_text().split()
    assert starts == [f"exp-{trial['id']}-1", f"exp-{trial['id']}-2"]


def test_a_server_that_starts_on_a_read_only_disk(tmp_path: Path) -> None:
    """As after a boot that found the disk damaged; clients ask all the time, also before it is mended."""
    boot = tmp_path / "boot"
    boot.write_text("before")
    environ = {"NNIMGR_BOOT_ID_FILE": str(boot)}
    with disk(tmp_path / "work", size="32m") as work:
        with serving(tmp_path, environ=environ) as server:
            here = Scene(server, tmp_path)
            here.create(TRIAL.format(tmp_path))
            here.running()
            power_off(here)
            server.wait()
        boot.write_text("after")
        work.remount("ro")
        with scene(tmp_path, environ=environ, port=server.port) as here:
            sentence = f"{here.folder}/db/nnimgr.sqlite: {READ_ONLY}"
            assert here.said() == sentence
            assert sentence in here.nnictl("experiment", "status", "exp")
            assert f"experiment exp cannot be reopened yet: {sentence}" in here.server.said
            assert here.trial()["status"] == "RUNNING"
            work.remount("rw")
            assert_run_again(here)


def test_a_keeper_that_starts_on_a_read_only_disk(tmp_path: Path) -> None:
    boot = tmp_path / "boot"
    boot.write_text("before")
    environ = {"NNIMGR_BOOT_ID_FILE": str(boot)}
    with (
        disk(tmp_path / "work" / "exp" / "keeper", size="1m") as keeper,
        scene(tmp_path, environ=environ) as here,
    ):
        here.create(TRIAL.format(tmp_path))
        here.running()
        here.server.process.send_signal(signal.SIGSTOP)
        try:
            power_off(here, but_the_server=True)
            boot.write_text("after")
            keeper.remount("ro")
        finally:
            here.server.process.send_signal(signal.SIGCONT)
        said = here.saying(READ_ONLY)
        file = f"{here.folder}/keeper/manager.json.new"
        failed = "the keeper on this machine could not be told the server's address"
        sentence = f"{failed}: [Errno 30] {READ_ONLY}: '{file}'"
        assert sentence in said
        assert f"keeper of exp on this machine: {sentence}" in here.server.said
        keeper.remount("rw")
        assert_run_again(here)


def test_a_stopped_experiment_on_a_read_only_disk_can_be_looked_at_but_not_resumed(tmp_path: Path) -> None:
    with disk(tmp_path / "work", size="32m") as work:
        with serving(tmp_path) as server:
            here = Scene(server, tmp_path)
            here.create("true")
            here.done()
            server.call("POST", f"{here.url}/stop")
        index = Index(server.home)
        entries = index.entries()
        work.remount("ro")
        with scene(tmp_path, port=server.port) as here:
            assert (here.said(), here.trial()["status"]) == (
                "it was stopped after it was DONE: 1 of 1 trials",
                "SUCCEEDED",
            )
            answer = here.server.call("POST", f"{here.url}/resume")
            sentence = f"{here.folder}/db/nnimgr.sqlite: {READ_ONLY}"
            assert (answer.status, answer.body["error"]["message"]) == (503, sentence)
            assert index.entries() == entries
            work.remount("rw")
            assert here.server.call("POST", f"{here.url}/resume").status == 200


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_database_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path, mode: str) -> None:
    with serving(tmp_path) as server:
        here = Scene(server, tmp_path)
        here.create("true")
        here.done()
        assert server.call("POST", f"{here.url}/stop").status == 200
    path = here.folder / "db" / "nnimgr.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA journal_mode = {mode}")
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    index = Index(server.home)
    entries = index.entries()
    with scene(tmp_path, port=server.port) as here:
        answer = here.server.call("POST", f"{here.url}/resume")
        assert (answer.status, answer.body["error"]["message"]) == (
            503,
            f"{path} has schema version {SCHEMA_VERSION + 1}, but this nnimgr knows versions up to "
            f"{SCHEMA_VERSION}: use the newer nnimgr that wrote it; nothing was changed",
        )
        assert here.get("")["served"] is False
    assert path.read_bytes() == before
    assert index.entries() == entries
