"""Tests of the claim file, and of what /proc shows of processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trial_keeper.harness import wait_for
from trial_keeper.attempt import claim
from trial_keeper.attempt.claim import Exit
from trial_keeper.machine import procs

FIRST = b"shim 12 345 boot-1\n"


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    (tmp_path / claim.FOLDER).mkdir()
    return claim.prefix(str(tmp_path), "e-a-1")


def test_only_one_takes_the_claim(prefix: str) -> None:
    assert claim.read(prefix) is None
    fd = claim.take(prefix, FIRST)
    assert fd is not None
    assert claim.take(prefix, b"aborted boot-1\n") is None
    os.write(fd, b"started 13 1.5\n")
    os.close(fd)
    found = claim.read(prefix)
    assert found is not None
    assert (found.pid, found.start_time, found.boot_id, found.started) == (12, "345", "boot-1", (13, 1.5))
    assert os.listdir(os.path.dirname(prefix)) == [f"e-a-1.{claim.NAME}"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/dev/zero", path)])
def test_whatever_is_in_the_place_of_a_claim_is_a_damaged_one(
    prefix: str, make: Callable[[str], None]
) -> None:
    make(claim.path(prefix))
    found = claim.read(prefix)
    assert found is not None and found.damaged


@pytest.mark.parametrize("content", [b"", b"\n", b"shim 12", b"exit 0 - 0 0 2.0 - \n", b"hello 1 2 3\n"])
def test_a_file_that_does_not_begin_as_a_claim_is_a_damaged_one(prefix: str, content: bytes) -> None:
    Path(claim.path(prefix)).write_bytes(content)
    found = claim.read(prefix)
    assert found is not None and found.damaged


def test_a_start_may_say_when_it_was_since_the_boot() -> None:
    found = claim.parse(FIRST + b"started 13 1.5 77.25\n")
    assert (found.started, found.started_up) == ((13, 1.5), 77.25)
    assert claim.parse(FIRST + b"started 13 1.5\n").started_up is None  # by an earlier version


def test_an_aborted_claim_has_no_process() -> None:
    found = claim.parse(b"aborted boot-1\n")
    assert (found.pid, found.boot_id) == (None, "boot-1")


@pytest.mark.parametrize(
    "ending",
    [
        Exit(0, None, 0, signalled=False, at=2.0),
        Exit(None, 9, 123, signalled=True, at=2.5, survivors=(4, 5), message="12 bytes of output\nare lost"),
        Exit(137, None, 0, signalled=False, out_of_memory=True, at=2.0),
        Exit(None, 9, 0, signalled=False, lapsed=True, at=2.0),
        Exit(2, None, 0, signalled=False, unreached=True, at=2.0),
    ],
)
def test_an_end_comes_back(ending: Exit) -> None:
    found = claim.parse(FIRST + b"started 13 1.5\n" + ending.line()).exit
    assert found is not None
    kinds = ("signalled", "lapsed", "out_of_memory", "unreached")
    for name in ("code", "signal", "size", *kinds, "at", "survivors"):
        assert getattr(found, name) == getattr(ending, name)
    assert found.message == ending.message.replace("\n", " ")


def test_a_command_that_failed_to_start_says_why() -> None:
    assert claim.parse(FIRST + b"failed 3.5 /no/where: No such file\n").failed == (
        3.5,
        "/no/where: No such file",
    )


def test_a_claim_may_have_a_note() -> None:
    found = claim.parse(FIRST + b"started 13 1.5\nnote a thread runs on\n")
    assert (found.note, claim.parse(FIRST).note) == ("a thread runs on", None)


def test_a_line_without_its_end_does_not_count() -> None:
    whole = FIRST + b"started 13 1.5\n" + Exit(0, None, 7, signalled=False, at=2.0).line()
    for length in range(len(FIRST), len(whole)):
        assert claim.parse(whole[:length]).exit is None


@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"shim\n", b"shim x y z\n", FIRST + b"exit ? ? ?\n"])
def test_what_power_loss_leaves_belongs_to_no_boot(content: bytes) -> None:
    found = claim.parse(content)
    assert (found.pid, found.boot_id) == (0, "")


def test_descendants_are_found_in_whatever_session() -> None:
    script = "(setsid sleep 70 & echo $!); sleep 70 & echo $!; wait"
    with subprocess.Popen(["/bin/bash", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        inner = [int(process.stdout.readline()) for _ in range(2)]
        assert inner[1] in procs.descendants(process.pid)
        assert process.pid in procs.descendants(os.getpid())
        procs.signal_all([*inner, process.pid], 9)
        wait_for(lambda: procs.start_time(inner[0]) is None, "the end of the other")


def test_a_reused_pid_is_told_apart_by_its_start() -> None:
    assert procs.start_time(os.getpid()) == procs.start_time(os.getpid())
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert procs.start_time(process.pid) is None
