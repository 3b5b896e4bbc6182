"""``trial-keeper guard <folder of manager.json> <work>``: a keeper in a job whose engine may lose processes.

Ray ends the processes of a job that it knows of, but a keeper and its shims have sessions of their own, which
outlive a killed job. So two processes watch each other. The *outer* one is the job's own process: it watches
its parent, the engine's supervisor. The *inner* one is its child in a session of its own, and the parent of
the process that ``trial_keeper.wrap`` describes. A pipe from the outer to the inner process ends with the
outer one. When either has ended, or the supervisor has, the other kills every process below itself. Both are
subreapers: orphans stay below them, so nothing of the job is left when both have ended.

SIGTERM is passed on. ``NNIMGR_POD_WHOLE_GRACE_S`` after it, what is left is killed shortly before the engine
would kill the processes that it knows of.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time

from trial_keeper.log import complain
from trial_keeper.machine import prctl, procs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, NoReturn

LOOK_S = 0.5  # polling interval for the end of the supervisor
MARGIN_S = 0.7  # the inner process kills what is left this long before the engine does
LEAST_GRACE_S = 0.2
KILL_PAUSE_S = 0.02
LOST = 1  # exit status: the processes have been killed, because the supervisor or a guard has ended

_ENDS = (signal.SIGTERM, signal.SIGINT)


class _Child:
    """Child process with its end, and the signals that ask this process to end.

    ``code``: exit status of the child; None while it runs. ``asked_at``: time of the first signal.
    """

    def __init__(self, pid: int, grace_s: float) -> None:
        self.code: int | None = None
        self.asked_at: float | None = None
        self._pid = pid
        self._grace_s = grace_s
        self._readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (signal.SIGCHLD, *_ENDS):
            signal.signal(number, self._note)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)

    def _note(self, number: int, _: object) -> None:
        if number in _ENDS and self.asked_at is None:
            self.asked_at = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def wait(self, lost: Callable[[], bool], lifeline: int | None) -> None:
        """Wait for the child's end, for ``lost``, for the end of the pipe, or until a grace has passed."""
        readable = [self._readable] if lifeline is None else [self._readable, lifeline]
        while True:
            self._reap()
            late = self.asked_at is not None and time.monotonic() >= self.asked_at + self._grace_s
            if self.code is not None or late or lost():
                return
            found, _, _ = select.select(readable, [], [], LOOK_S)
            if lifeline in found:
                return
            if found:
                os.read(self._readable, 512)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._pid:
                    killed = os.WIFSIGNALED(status)
                    self.code = 128 + os.WTERMSIG(status) if killed else os.WEXITSTATUS(status)


def run(contain: Callable[[], NoReturn]) -> NoReturn:
    """Run as the process of a job. ``contain``: runs as process 1 of a container (``wrap.run``)."""
    supervisor = os.getppid()
    grace_s = float(os.environ.get("NNIMGR_POD_WHOLE_GRACE_S") or 3.0) - MARGIN_S
    prctl.loaded()(prctl.SUBREAPER, 1)
    lifeline, ours = os.pipe2(os.O_CLOEXEC)
    inner = os.fork()
    if inner == 0:
        os.close(ours)
        _run_inner(contain, lifeline, max(LEAST_GRACE_S, grace_s))
    os.close(lifeline)
    child = _Child(inner, max(LEAST_GRACE_S, grace_s) + MARGIN_S / 2)
    child.wait(lambda: os.getppid() != supervisor, None)
    if child.code is None and child.asked_at is None:
        complain("the supervisor of this job has ended: the keeper and its trials are ended")
    _finish(LOST if child.code is None else child.code)


def _run_inner(contain: Callable[[], NoReturn], lifeline: int, grace_s: float) -> NoReturn:
    os.setsid()  # the engine kills the process group of the outer process
    prctl.loaded()(prctl.SUBREAPER, 1)
    container = os.fork()
    if container == 0:
        try:
            os.close(lifeline)
            contain()
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else LOST)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(LOST)
    child = _Child(container, grace_s)
    child.wait(lambda: False, lifeline)
    _finish(LOST if child.code is None else child.code)


def _finish(code: int) -> NoReturn:
    """Kill every process below this one, wait for their ends, and exit."""
    while True:
        below = procs.descendants(os.getpid())
        procs.signal_all(below, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            break  # no process is left below this one
        time.sleep(KILL_PAUSE_S)
    if folder := os.environ.get("NNIMGR_POD_CLEAN"):
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)
