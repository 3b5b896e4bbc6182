"""The files of attempts, and the signals that go with them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trial_keeper.actions import files
from trial_keeper.attempt import claim
from trial_keeper.core.effects import Shim
from trial_keeper.machine import procs


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def claimed(tmp_path: Path, process: subprocess.Popen[bytes], rest: bytes) -> tuple[str, Shim]:
    """Write a claim of this process. Return the beginning of its path, and the process."""
    start = procs.start_time(process.pid)
    assert start is not None
    prefix = str(tmp_path / "e-a-1.")
    Path(claim.path(prefix)).write_bytes(b"shim %d %s boot-1\n" % (process.pid, start.encode()) + rest)
    return prefix, (process.pid, start)


def test_a_shim_is_killed_while_its_attempt_runs(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    files.kill(*claimed(tmp_path, process, b"started 13 1.5\n"))
    assert process.wait(20) == -signal.SIGKILL


def test_a_shim_whose_attempt_has_ended_is_not_killed(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    ending = claim.Exit(0, None, 0, signalled=False, at=2.0)
    files.kill(*claimed(tmp_path, process, b"started 13 1.5\n" + ending.line()))
    assert procs.start_time(process.pid) is not None


def test_a_shim_without_a_claim_file_is_killed(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    prefix, shim = claimed(tmp_path, process, b"")
    Path(claim.path(prefix)).unlink()
    files.kill(prefix, shim)
    assert process.wait(20) == -signal.SIGKILL
