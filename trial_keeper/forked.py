"""How a process that a shim has forked becomes what executing a program would have made of it."""

from __future__ import annotations

import os
import signal

from trial_keeper.machine import prctl
from trial_keeper.shim import RESET

_prctl = prctl.loaded()


def begin(environ: dict[bytes, bytes], outputs: list[int], parent: int, kept: set[int]) -> None:
    """Give this process a session, signals, output and environment of its own, and end it with its shim.

    ``outputs``: descriptors of standard output and standard error. ``parent``: pid of the shim. ``kept``:
    other descriptors that stay open. Exit if the shim has ended already.
    """
    os.setsid()
    _prctl(prctl.DEATH_SIGNAL, int(signal.SIGKILL))
    if os.getppid() != parent:  # the shim has ended before it could be linked to this process
        os._exit(1)
    _reset_signals()
    for number, fd in enumerate(outputs, 1):
        os.dup2(fd, number)
    for fd in descriptors():
        if fd > 2 and fd not in kept:
            os.close(fd)
    os.environb.clear()
    os.environb.update(environ)


def descriptors() -> list[int]:
    """Return the open descriptors of this process."""
    return [fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{fd}")]


def _reset_signals() -> None:
    """Set the signals as a new Python has them."""
    signal.set_wakeup_fd(-1)
    for number in RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
