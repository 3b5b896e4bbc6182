"""A database that is older than what was done with it: recognised, said, and nothing is started twice."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.scene import Scene, eventually
from tests.server.harness import nothing_left, serving

TRIAL = """
import os, sys, time, nni
nni.get_next_parameter()
here = os.path.dirname(os.path.abspath(sys.argv[0]))
with open(f"{here}/starts", "a") as file:
    file.write(os.environ["NNIMGR_JOB_ID"] + "\\n")
nni.report_intermediate_result(1)
number = nni.get_sequence_id()
while not os.path.exists(f"{here}/go-{number}") and not os.path.exists(f"{here}/go"):
    time.sleep(0.01)
nni.report_final_result(2)
"""


def replace(folder: Path, backup: Path) -> None:
    """Put an older copy of the database in place."""
    for path in (folder / "db").glob("nnimgr.sqlite*"):
        path.unlink()
    for path in backup.glob("nnimgr.sqlite*"):
        shutil.copy(path, folder / "db" / path.name)


def remove_log(folder: Path, backup: Path) -> None:
    """Remove the write-ahead log: all that was committed since it was last moved into the database."""
    for ending in ("-wal", "-shm"):
        (folder / "db" / f"nnimgr.sqlite{ending}").unlink(missing_ok=True)


@pytest.mark.parametrize("age", [replace, remove_log])
def test_it_goes_on_without_starting_anything_twice(tmp_path: Path, age: object) -> None:
    assert callable(age)
    with ExitStack() as stack:
        stack.enter_context(nothing_left(tmp_path))
        server = stack.enter_context(serving(tmp_path))
        here = Scene(server, tmp_path)
        here.create(here.script(TRIAL), maxTrialNumber=6, trialConcurrency=2)
        eventually(lambda: len(starts(here)) == 2, "two trials")
        eventually(lambda: [t["status"] for t in here.trials()].count("RUNNING") == 2, "their records")
        backup = tmp_path / "backup"
        server.end(signal.SIGKILL)
        shutil.copytree(here.folder / "db", backup)
        if age is remove_log:  # a database without its first facts would be none
            merge(here.folder / "db" / "nnimgr.sqlite")

        here = restarted(stack, here)
        (tmp_path / "go-0").touch()
        eventually(lambda: len(starts(here)) == 3, "a third trial")
        eventually(lambda: here.profile()["counts"].get("SUCCEEDED") == 1, "the end of the first")
        here.server.end(signal.SIGKILL)
        age(here.folder, backup)

        here = restarted(stack, here)
        assert "the database was replaced by an older one" in here.saying("older")
        (tmp_path / "go").touch()
        trials = here.done()
        assert {trial["status"] for trial in trials} <= {"SUCCEEDED", "SYS_CANCELED"}
        assert Counter(trial["status"] for trial in trials)["SUCCEEDED"] == 6
        assert [job for job, count in Counter(starts(here)).items() if count > 1] == []
        first = next(trial for trial in trials if trial["sequence"] == 0)
        assert [metric["value"] for metric in here.metrics(first["id"])] == [1.0, 2.0]
        here.server.call("POST", f"{here.url}/stop")


def test_an_emptied_database_is_named(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(nothing_left(tmp_path))
        here = Scene(stack.enter_context(serving(tmp_path)), tmp_path)
        here.create("exit 0")
        here.done()
        here.server.end(signal.SIGKILL)
        for path in (here.folder / "db").glob("nnimgr.sqlite*"):
            path.write_bytes(b"")
        here = restarted(stack, here)
        for method, path_ in (("GET", ""), ("POST", "/resume"), ("POST", "/stop")):
            answer = here.server.call(method, here.url + path_)
            assert answer.status == 503
            assert "is empty; put a copy of it back in its place" in answer.body["error"]["message"]


def starts(here: Scene) -> list[str]:
    path = here.directory / "starts"
    return path.read_text().split() if path.exists() else []


def restarted(stack: ExitStack, here: Scene) -> Scene:
    return Scene(stack.enter_context(serving(here.directory, port=here.server.port)), here.directory)


def merge(path: Path) -> None:
    """Move the write-ahead log into the database."""
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
