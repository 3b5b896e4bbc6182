"""Tests of requests to save a trial's state, and of the deletion of checkpoints, on a real disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.permissions import obedient
from tests.trial_keeper.harness import wait_for
from trial_keeper.actions import files
from trial_keeper.actions.prunes import Prunes, prune
from trial_keeper.core import effects as fx

# -- requests to save


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """Return an attempt's folder, whose trial looks for requests."""
    (tmp_path / ".nni").mkdir()
    (tmp_path / files.ASKS).touch()
    return tmp_path


def test_a_trial_that_looks_for_requests_is_asked(attempt: Path) -> None:
    assert not files.save_waits(str(attempt))
    assert files.ask_save(str(attempt), stays=False)
    assert files.save_waits(str(attempt))
    assert sorted(path.name for path in (attempt / ".nni").iterdir()) == ["asks", "save"]
    (attempt / files.SAVE).unlink()  # as the trial does when it has saved
    assert not files.save_waits(str(attempt))


def test_a_request_can_be_repeated(attempt: Path) -> None:
    assert files.ask_save(str(attempt), stays=False) and files.ask_save(str(attempt), stays=False)
    assert files.save_waits(str(attempt))


def test_a_trial_that_does_not_look_is_not_asked(tmp_path: Path) -> None:
    assert not files.ask_save(str(tmp_path), stays=False)  # its folder is empty, too
    (tmp_path / ".nni").mkdir()
    assert not files.ask_save(str(tmp_path), stays=False)
    assert not files.save_waits(str(tmp_path))


def test_a_request_that_cannot_be_written_is_none(attempt: Path) -> None:
    (attempt / files.SAVE).mkdir()  # no file can replace a folder
    assert not files.ask_save(str(attempt), stays=False)
    assert sorted(path.name for path in (attempt / ".nni").iterdir()) == ["asks", "save"]


# -- deletion


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the checkpoints 1 to 5 and with what a save has not finished."""
    folder = tmp_path / "trials" / "a" / files.CHECKPOINTS
    for name in ("1", "2", "3", "4", "5", ".new-77"):
        (folder / name / "folder").mkdir(parents=True)
        file = folder / name / "folder" / "weights"
        file.write_bytes(b"weights")
        file.chmod(0o444)
    return folder


def test_checkpoints_up_to_a_number_are_deleted_except_some(folder: Path) -> None:
    prune(str(folder), 4, [2])
    assert names(folder) == [".new-77", "2", "5"]
    assert (folder / "2" / "folder" / "weights").read_bytes() == b"weights"
    prune(str(folder), 4, [2])
    assert names(folder) == [".new-77", "2", "5"]


def test_what_an_interrupted_deletion_has_left_is_deleted(folder: Path) -> None:
    (folder / "1").rename(folder / ".gone-1")
    (folder / ".gone-9").mkdir()
    prune(str(folder), 0, [])
    assert names(folder) == [".new-77", "2", "3", "4", "5"]


def test_a_link_in_place_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    prune(str(link), 5, [])
    assert len(names(folder)) == 6


def test_a_link_in_place_of_a_checkpoint_is_not_followed(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (folder / "2").rename(elsewhere)
    (folder / "2").symlink_to(elsewhere)
    prune(str(folder), 5, [])
    assert (elsewhere / "folder" / "weights").read_bytes() == b"weights"
    assert "2" not in names(folder)


def test_checkpoints_that_a_trial_has_made_read_only_are_deleted(folder: Path) -> None:
    for checkpoint in (folder / "1", folder / ".new-77"):
        (checkpoint / "folder").chmod(0o555)
        checkpoint.chmod(0o555)
    script = (
        "import sys; from trial_keeper.actions import prunes\n"
        "prunes.prune(sys.argv[1], 4, []); prunes.drop_unfinished(sys.argv[1])\n"
    )
    root = Path(__file__).parents[3]
    subprocess.run(obedient(sys.executable, "-c", script, str(folder)), check=True, cwd=root)
    assert names(folder) == ["5"]


def test_names_that_are_no_numbers_of_checkpoints_stay(folder: Path) -> None:
    for name in ("notes", "-1", "1.5", "\N{SUPERSCRIPT TWO}"):
        (folder / name).mkdir()
    prune(str(folder), 5, [])
    assert names(folder) == ["-1", ".new-77", "1.5", "notes", "\N{SUPERSCRIPT TWO}"]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        prune(str(tmp_path / "nothing"), 1, [])


def test_deletions_continue_after_one_that_failed(folder: Path, tmp_path: Path) -> None:
    done: list[int] = []
    prunes = Prunes(files.Paths(str(tmp_path), {}), done.append)
    assert prunes.take(fx.Prune("trials/missing", 3, [])) == []
    assert prunes.take(fx.Prune("trials/a", 3, [1], 7)) == []
    prunes.finish()
    assert names(folder) == [".new-77", "1", "4", "5"]
    wait_for(lambda: done[-1:] == [7], "the number of the last deletion")


def test_an_unfinished_checkpoint_of_an_ended_attempt_is_deleted(folder: Path, tmp_path: Path) -> None:
    prunes = Prunes(files.Paths(str(tmp_path), {}), lambda number: None)
    prunes.tidy("trials/missing")
    prunes.tidy("trials/a")
    prunes.finish()
    assert names(folder) == ["1", "2", "3", "4", "5"]
