"""Folders that a trial has made read-only are removed, and nothing else is changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.permissions import obedient
from tests.trial_keeper.harness import oldest_python
from trial_keeper.machine.removal import remove_folder

REMOVE = """
import sys
from trial_keeper.machine.removal import remove_folder
try:
    remove_folder(sys.argv[1])
except OSError as error:
    print(error.filename, error.strerror)
"""
ASK = """
import sys
from trial_keeper.attendant import Attendant, threading
attendant = Attendant("", sys.argv[1], lambda line: print(line.decode(), end=""))
attendant.take({"no": 1, "do": "remove", "directory": "nni-experiments/exp/here"})
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join()
"""


def run(script: str, folder: Path, python: str = sys.executable) -> str:
    command = obedient(python, "-c", script, str(folder))
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def read_only(folder: Path) -> None:
    """Make a folder like those of Go's module cache, and one that cannot even be listed."""
    for path, mode in ((folder / "pkg" / "mod", 0o555), (folder / "pkg", 0o555), (folder / "shut", 0)):
        path.mkdir(parents=True, exist_ok=True)
        (path / "f").touch()
        path.chmod(mode)


@pytest.mark.parametrize("python", [sys.executable, oldest_python()])
def test_a_read_only_folder_is_removed_and_the_target_of_a_link_is_not_changed(
    tmp_path: Path, python: str | None
) -> None:
    if python is None:
        pytest.skip("no Python 3.8 here")
    read_only(tmp_path / "trials")
    read_only(tmp_path / "other")
    (tmp_path / "trials" / "link").symlink_to(tmp_path / "other" / "pkg")
    (tmp_path / "trials").chmod(0o500)
    assert run(REMOVE, tmp_path / "trials", python) == ""
    assert not (tmp_path / "trials").exists()
    assert (tmp_path / "other" / "pkg").stat().st_mode & 0o777 == 0o555


def test_what_cannot_be_removed_is_named_by_its_full_path(tmp_path: Path) -> None:
    (tmp_path / "shut" / "inner").mkdir(parents=True)
    (tmp_path / "shut" / "inner" / "f").touch()
    (tmp_path / "shut").chmod(0o555)
    assert run(REMOVE, tmp_path / "shut" / "inner") == f"{tmp_path}/shut/inner Permission denied\n"
    with pytest.raises(FileNotFoundError) as caught:
        remove_folder(str(tmp_path / "missing"))
    assert caught.value.filename == str(tmp_path / "missing")


def test_an_attendant_removes_read_only_folders(tmp_path: Path) -> None:
    directory = tmp_path / "nni-experiments" / "exp" / "here"
    read_only(directory / "trials" / "a")
    assert json.loads(run(ASK, tmp_path)) == {"no": 1, "answer": {}}
    assert list(tmp_path.iterdir()) == [tmp_path / "nni-experiments"]
