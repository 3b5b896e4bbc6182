"""Copies of event files from other machines."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nnimgr.tensorboard.copies import Copies
from nnimgr.tensorboard.trials import LoggedTrial
from training_services.base import FileListing, ServiceUnavailable, TrialFile

T0 = datetime(2020, 1, 1, tzinfo=UTC)


class Machine:
    """Files of one trial on another machine."""

    def __init__(self, **files: bytes) -> None:
        self.files = {path.replace("__", "/"): content for path, content in files.items()}
        self.changes = 0
        self.reads: list[str] = []
        self.failure: Exception | None = None

    def write(self, path: str, content: bytes) -> None:
        self.files[path] = content
        self.changes += 1

    async def listing(self) -> FileListing:
        if self.failure is not None:
            raise self.failure
        at = T0 + timedelta(seconds=self.changes)
        return FileListing(tuple(TrialFile(path, len(text), at) for path, text in self.files.items()))

    async def read(self, path: str) -> AsyncGenerator[bytes, None]:
        self.reads.append(path)
        content = self.files[path]
        for at in range(0, len(content), 3):
            yield content[at : at + 3]


def _trial(machine: Machine, sequence: int = 0) -> LoggedTrial:
    return LoggedTrial(trial_id="abcde", sequence=sequence, shown="there", folders={}, distant=machine)


def _found(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_only_event_files_are_brought(tmp_path: Path) -> None:
    machine = Machine(
        stdout=b"no", tensorboard__a=b"one", tensorboard__sub__b=b"two", code__tensorboard__c=b"3"
    )
    assert await Copies(tmp_path).refresh([_trial(machine)])
    assert _found(tmp_path) == {
        "0-abcde/a": b"one",
        "0-abcde/sub/b": b"two",
        "0-abcde-code/c": b"3",
    }


async def test_a_file_that_grows_is_continued_in_place(tmp_path: Path) -> None:
    machine, copies = Machine(tensorboard__a=b"12345"), Copies(tmp_path)
    await copies.refresh([_trial(machine)])
    await copies.refresh([_trial(machine)])
    assert machine.reads == ["tensorboard/a"]  # nothing has changed
    reader = os.open(tmp_path / "0-abcde" / "a", os.O_RDONLY)
    assert os.read(reader, 100) == b"12345"
    machine.write("tensorboard/a", b"1234567890")
    await copies.refresh([_trial(machine)])
    assert os.read(reader, 100) == b"67890"
    os.close(reader)
    machine.write("tensorboard/a", b"new")
    await copies.refresh([_trial(machine)])
    assert _found(tmp_path) == {"0-abcde/a": b"new"}


@pytest.mark.parametrize("path", ["tensorboard/../../x", "tensorboard//x", "tensorboard/./x", "tensorboard/"])
async def test_a_name_cannot_leave_the_folder(tmp_path: Path, path: str) -> None:
    machine = Machine()
    machine.write(path, b"evil")
    assert await Copies(tmp_path / "runs").refresh([_trial(machine)])
    assert machine.reads == [] and _found(tmp_path) == {}


async def test_number_and_size_are_bounded(tmp_path: Path) -> None:
    machine = Machine(tensorboard__a=b"12345", tensorboard__b=b"67890", tensorboard__c=b"x")
    few = Copies(tmp_path / "few", most_files=2)
    assert await few.refresh([_trial(machine)])
    assert len(_found(tmp_path / "few")) == 2
    assert few.notice is not None and "at most 2 files" in few.notice
    small = Copies(tmp_path / "small", most_bytes=7)
    assert await small.refresh([_trial(machine)])
    assert sum(map(len, _found(tmp_path / "small").values())) == 7
    assert small.notice is not None and small.notice.startswith("Some files are left out")
    del machine.files["tensorboard/b"], machine.files["tensorboard/c"]
    await small.refresh([_trial(machine)])
    assert small.notice is None


async def test_a_machine_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    lost, silent, good = Machine(), Machine(), Machine(tensorboard__a=b"1")
    lost.failure, silent.failure = ServiceUnavailable("the machine is down"), FileNotFoundError("no folder")
    copies = Copies(tmp_path)
    assert await copies.refresh([_trial(lost, 4), _trial(good, 5), _trial(silent, 6)])
    assert copies.notice == "The files of trial 4 cannot be read: the machine is down."
    assert not await copies.refresh([_trial(lost, 4)])
    lost.failure = None
    assert await copies.refresh([_trial(lost, 4)]) and copies.notice is None
