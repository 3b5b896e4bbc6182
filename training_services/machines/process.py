"""Starts and watches processes of this machine that outlive the server, such as keepers."""

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
        """Close the pidfd. A process that this server has started, and that has ended, is reaped."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, self._descriptor, os.WEXITED | os.WNOHANG)
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
    command: Sequence[str], *, environ: Mapping[str, str], output: Path
) -> WatchedProcess | None:
    """Start a command in a session of its own, with its output appended to a file.

    ``command[0]`` is a full path. Return None if the process has ended already. Raises ServiceError, OSError.
    """
    try:
        async with asyncio.timeout(LAUNCH_S):
            pid = await asyncio.to_thread(_launch, command, environ, output)
    except TimeoutError:
        raise ServiceError(f"{command[0]} has not started within {LAUNCH_S:.0f} s") from None
    try:
        return WatchedProcess(pid)
    except ProcessLookupError:
        return None


def _launch(command: Sequence[str], environ: Mapping[str, str], output: Path) -> int:
    """Start the process and return its pid.

    This takes 1 ms. A process of ``asyncio`` takes 10 ms with uvloop, because uvloop forks the whole server,
    and the server stands still meanwhile.
    """
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        *((os.POSIX_SPAWN_DUP2, descriptor, number) for number in (1, 2)),
    ]
    default = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores these signals
    try:
        return os.posix_spawn(
            command[0],
            list(command),
            environ,
            file_actions=files,
            setsid=True,
            setsigmask=(),
            setsigdef=default,
        )
    finally:
        os.close(descriptor)
