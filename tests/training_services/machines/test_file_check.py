"""Checks of files on file systems that may hang."""

from __future__ import annotations

import asyncio
import threading

import pytest

from training_services.machines import file_check
from training_services.machines.file_check import FileCheck

HANGS = "waits for the disk, which does not answer"


async def test_a_disk_that_hangs_is_an_obstacle_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_check, "LIMIT_S", 0.001)
    disk, begun, answered = threading.Event(), threading.Event(), asyncio.Event()
    looks: list[None] = []

    def look() -> None:
        looks.append(None)
        begun.set()
        disk.wait()

    check = FileCheck(look, hangs=HANGS, answered=answered.set)
    assert [check.obstacle(), check.obstacle()] == [HANGS, HANGS]
    assert begun.wait(10)
    assert len(looks) == 1  # not another thread for each question
    disk.set()
    await asyncio.wait_for(answered.wait(), 10)
    monkeypatch.setattr(file_check, "LIMIT_S", 10.0)
    assert check.obstacle() is None


async def test_an_answer_after_the_end_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_check, "LIMIT_S", 0.001)
    disk, called = threading.Event(), asyncio.Event()
    check = FileCheck(lambda: str(disk.wait()), hangs=HANGS, answered=called.set)
    assert check.obstacle() == HANGS
    check.close()
    disk.set()
    monkeypatch.setattr(file_check, "LIMIT_S", 10.0)
    while check.obstacle() == HANGS:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert not called.is_set()
