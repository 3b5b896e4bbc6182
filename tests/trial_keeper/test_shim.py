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
attempt = shim.Shim(fields, 1)
attempt.take_signals(())
attempt.run({})
print(claim.read(sys.argv[1] + "/").failed[1])
"""


def test_where_there_is_no_shell_the_attempt_says_so(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", SHELLS, str(tmp_path / "attempt")], capture_output=True, text=True, check=True
    )
    assert "there is neither /bin/bash nor /bin/sh here to run the command" in said.stdout


# The disk takes no line that begins with "started" until the command has ended.
FULL = """
import _signal, errno, os, sys
from trial_keeper import shim
from trial_keeper.attempt import claim
folder, write = sys.argv[1], os.write

def write_unless_full(fd, text):
    if text.startswith(b"started") and not os.path.exists(f"{folder}/ended"):
        raise OSError(errno.ENOSPC, "No space left on device")
    return write(fd, text)

for number in (_signal.SIGTERM, _signal.SIGCHLD):
    _signal.signal(number, lambda number, frame: None)
os.write = write_unless_full
command = (
    f"trap 'touch {folder}/ended; exit 3' TERM; head -c 200000 /dev/zero; kill -TERM $PPID; "
    "while :; do sleep 0.05; done"  # and no wait: a signal just before it would not end it
)
fields = ["e-a-1", "boot", folder, command, "/", "{}", "1000000", f"{folder}/", ""]
attempt = shim.Shim([field.encode() for field in fields], os.open(os.devnull, os.O_WRONLY))
attempt.take_signals(())
attempt.run(dict(os.environb))
found = claim.read(f"{folder}/")
print(found.started is not None, found.exit.code, found.exit.signalled, os.path.getsize(f"{folder}/stdout"))
"""


def test_a_command_is_watched_and_stopped_while_the_disk_is_full(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "attempt")],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert said.stdout == "True 3 True 200000\n"


# A kill by the kernel is counted in the control group, for which a file stands in.
OOM = """
import _signal, os, sys
from trial_keeper import shim
from trial_keeper.attempt import claim
from trial_keeper.machine import cgroup
folder, counts = sys.argv[1], sys.argv[2]
for number in (_signal.SIGTERM, _signal.SIGCHLD):
    _signal.signal(number, lambda number, frame: None)
cgroup._events.append(f"{folder}.events")
with open(cgroup._events[0], "w") as file:
    file.write("oom_kill 3\\n")
command = f"echo 'oom_kill {counts}' > {folder}.events; kill -KILL $$"
fields = ["e-a-1", "boot", folder, command, "/", "{}", "1000000", f"{folder}/", ""]
attempt = shim.Shim([field.encode() for field in fields], os.open(os.devnull, os.O_WRONLY))
attempt.take_signals(())
attempt.run(dict(os.environb))
found = claim.read(f"{folder}/")
print(found.exit.signal, found.exit.out_of_memory, found.exit.message.partition(":")[0])
"""


@pytest.mark.parametrize(("counts", "said"), [(4, "9 True killed for lack of memory\n"), (3, "9 False \n")])
def test_a_kill_for_lack_of_memory_is_told_from_other_kills(tmp_path: Path, counts: int, said: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", OOM, str(tmp_path / "attempt"), str(counts)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert found.stdout == said
