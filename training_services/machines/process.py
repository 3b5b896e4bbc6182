"""Starts and watches processes of this machine that are not children of the server, such as keepers.

A keeper outlives the server and must not become its zombie, so a short-lived launcher starts it. From then
on, the server treats it like a process that an earlier server has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from training_services.base import ServiceError

__all__ = ["WatchedProcess", "launch", "lock_holder"]

LAUNCH_S = 30.0  # longest wait for the start of a process
_LAUNCHER = """
import os, sys
os.chdir("/")
null = os.open(os.devnull, os.O_RDWR)
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
pid = os.fork()
if pid:
    os.write(1, b"%d" % pid)
    os._exit(0)
for number, end in enumerate((null, out, out)):
    os.dup2(end, number)
for number in map(int, os.listdir("/proc/self/fd")):
    if number > 2:
        try:
            os.close(number)
        except OSError:
            pass  # the descriptor of the listing itself is closed already
os.execv(sys.argv[2], sys.argv[2:])
"""


class WatchedProcess:
    """Process that is identified by a pidfd, a file descriptor for it.

    So it is not confused with a later process that gets the same pid.
    """

    def __init__(self, pid: int) -> None:
        """Open a pidfd for the process. Raises ProcessLookupError."""
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    async def ended(self) -> None:
        """Wait until the process has ended."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        loop.add_reader(self._descriptor, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(self._descriptor)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process. Raises ProcessLookupError."""
        signal.pidfd_send_signal(self._descriptor, number)

    def arguments(self) -> list[str]:
        """Return the command line of the process; empty if the process has ended."""
        try:
            return os.fsdecode(Path(f"/proc/{self.pid}/cmdline").read_bytes()).split("\0")[:-1]
        except OSError:
            return []

    def close(self) -> None:
        os.close(self._descriptor)


def lock_holder(path: Path) -> WatchedProcess | None:
    """Return the process that holds ``flock`` on the file, or None if no such process can be found."""
    try:
        inode = os.stat(path).st_ino
        locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in locks:
        # A line is "1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF", with pid and inode. "->" before FLOCK
        # marks a process that waits for the lock.
        words = line.split()
        if len(words) == 8 and words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode):
            try:
                return WatchedProcess(int(words[4]))
            except (OSError, ValueError):
                continue
    return None


async def launch(
    command: Sequence[str], *, environ: Mapping[str, str], python: str, output: Path
) -> WatchedProcess | None:
    """Start a command as a detached process in its own session, with its output appended to a file.

    ``command[0]`` is a full path. Return None if the process has ended already. Raises ServiceError, OSError.
    """
    launcher = await asyncio.create_subprocess_exec(
        *(python, "-S", "-E", "-c", _LAUNCHER, str(output), *command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environ),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(LAUNCH_S):
            told, complaint = await launcher.communicate()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            launcher.kill()
        raise ServiceError(f"{python} has not started the process within {LAUNCH_S:.0f} s") from None
    if launcher.returncode != 0 or not told.isdigit():
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise ServiceError(f"{python} cannot start the process: {lines[-1] if lines else 'no output'}")
    try:
        return WatchedProcess(int(told))
    except ProcessLookupError:
        return None
