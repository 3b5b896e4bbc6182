"""Tests of the shims that a spawner rehearses before its first fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REHEARSE = """
import _signal, os, sys
from trial_keeper import shim
_signal.signal(_signal.SIGCHLD, lambda number, frame: None)
before = os.listdir("/proc/self/fd")
if len(sys.argv) > 2:
    shim.SHELL = sys.argv[2]
shim.rehearse(sys.argv[1], dict(os.environb))
assert os.listdir("/proc/self/fd") == before
"""


def rehearse(*arguments: str, **environ: str) -> None:
    subprocess.run(
        [sys.executable, "-c", REHEARSE, *arguments],
        env={**os.environ, **environ},
        check=True,
        timeout=30,
    )


@pytest.mark.parametrize("shell", [[], ["/nonexistent/shell"]])
def test_a_rehearsal_leaves_no_file_and_no_descriptor(tmp_path: Path, shell: list[str]) -> None:
    rehearse(str(tmp_path / "rehearsal"), *shell)
    assert list(tmp_path.iterdir()) == []


def test_a_rehearsal_where_nothing_can_be_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    rehearse(str(tmp_path / "file" / "rehearsal"))


def test_a_rehearsal_runs_nothing_of_the_user_s(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    script = tmp_path / "bash_env"
    script.write_text(f"touch {ran}\n")
    rehearse(str(tmp_path / "rehearsal"), BASH_ENV=str(script))
    assert not ran.exists()


SHELLS = """
import sys
from trial_keeper import shim
from trial_keeper.attempt import claim
shim.SHELL = None
folder = sys.argv[1].encode()
fields = [b"e-a-1", b"boot", folder, b"true", b"/", b"{}", b"4096", folder + b"/", b""]
attempt = shim._Shim(fields, 1)
attempt.take_signals(())
attempt.run({})
print(claim.read(sys.argv[1] + "/").failed[1])
"""


def test_where_there_is_no_shell_the_attempt_says_so(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", SHELLS, str(tmp_path / "attempt")], capture_output=True, text=True, check=True
    )
    assert "there is neither /bin/bash nor /bin/sh here to read it" in said.stdout
