"""``trial-keeper wrap <folder of manager.json> <work>``: process 1 of a container that runs a keeper.

``<work>`` is the experiment's directory in the container; no other folder has to be writable. The process
creates a keeper's directory in ``<work>``, whose ``manager.json`` links to the given file. That file may be
replaced at any time. The keeper is a child process, which logs to standard output and is restarted if it is
killed. Process 1 also reaps all orphans.

SIGTERM means that the container is shutting down: the keeper finds the file ``ending``, stops its attempts
with ``NNIMGR_POD_GRACE_S`` seconds of grace, reports to the server, and stays until the server has copied
the checkpoints that it needs from here. The container is killed ``NNIMGR_POD_WHOLE_GRACE_S`` after SIGTERM,
and the keeper exits shortly before. The container ends with its keeper, and has the exit status of its single
attempt. Into the file ``NNIMGR_POD_REASON``, if that is given, a keeper that exits writes why.

A job of a batch system, such as Slurm, runs this process, too. It may send SIGUSR1 earlier than SIGTERM:
``NNIMGR_POD_EARLY_S`` seconds before it kills the job. Then trials first get ``NNIMGR_POD_SAVE_S`` seconds to
save their state. The folder ``NNIMGR_POD_CLEAN`` is removed at the end.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
import time

from trial_keeper.attempt import claim, ending
from trial_keeper.log import complain
from trial_keeper.machine import disk, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, Protocol

    class Keep(Protocol):
        def __call__(self, directory: str, *, foreground: bool) -> NoReturn: ...


KEEPER = "keeper"  # the keeper's directory, below <work>
UNUSABLE = 1  # exit status: the keeper cannot run here
NOT_STARTED = 127  # exit status: the command could not be started, as in a shell
BY_SIGNAL = 128  # exit status, plus the signal's number
PAUSE_S = 1.0
FAILURES = 10  # number of early ends of the keeper after which process 1 gives up
SOON_S = 30.0

_SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}


def run(manager: str, work: str, keep: Keep) -> NoReturn:
    """Run as process 1 of a container.

    Exit with an error and the status UNUSABLE if a keeper cannot run here. ``keep``: function that runs the
    keeper.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # for sigwait: process 1 has no default actions
    os.dup2(1, 2)
    prctl.loaded()(prctl.SUBREAPER, 1)  # a batch system may look for orphans below this process only
    directory = f"{work}/{KEEPER}"
    try:
        _prepare(os.path.abspath(manager), work, directory)
    except OSError as error:
        _give_up(f"{error.filename or work}, where a keeper works, cannot be written: {error.strerror}")
    if importlib.util.find_spec("_ssl") is None:
        _give_up(f"{sys.executable} was built without TLS, which a keeper needs to identify its server")
    try:
        os.environ.update(_environment(work))
    except OSError as error:
        _give_up(f"{error.filename} cannot be made: {error.strerror}")
    ended = _Init(keep, os.path.abspath(directory)).run()
    status = exit_status(work, ended=ended)
    if left := os.environ.get("NNIMGR_POD_CLEAN"):
        with contextlib.suppress(OSError):
            disk.remove(left)
    sys.exit(status)


class _Init:
    """Process 1, which forks the keeper of this directory and restarts the keeper after a failure."""

    def __init__(self, keep: Keep, directory: str) -> None:
        self._keep = keep
        self._directory = directory
        self._keeper = 0
        self._started_at = 0.0
        self._failures = 0
        self._ended = False

    def run(self) -> bool:
        """Run the keeper until it exits for good. Return whether the container was ordered to end."""
        self._start()
        while True:
            number = signal.sigwait(_SIGNALS)
            if number != signal.SIGCHLD:
                self._tell(ending.EARLY if number == signal.SIGUSR1 else ending.NEW)
                continue
            status = self._reap()
            if status == 0:
                return self._ended
            if status is not None:
                self._start_again(status)

    def _start(self) -> None:
        self._started_at = time.monotonic()
        self._keeper = os.fork()
        if self._keeper == 0:
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                self._keep(self._directory, foreground=True)
            except SystemExit:
                os._exit(0)  # another keeper serves the directory
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(UNUSABLE)  # reached after an exception only: the keeper itself exits with os._exit

    def _start_again(self, status: int) -> None:
        soon = time.monotonic() - self._started_at < SOON_S
        self._failures = self._failures + 1 if soon else 1
        if self._failures >= FAILURES:
            _give_up(f"the keeper has ended {FAILURES} times, each soon after its start ({_how(status)})")
        complain(f"the keeper has ended ({_how(status)}): it is started again")
        time.sleep(PAUSE_S)
        self._start()

    def _reap(self) -> int | None:
        """Reap ended children; return the keeper's wait status, or None while the keeper runs."""
        found = None
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self._keeper:
                    found = status
        return found

    def _tell(self, order: str) -> None:
        """Order the keeper to end, with a rename of an existing file, which also works on a full disk."""
        if not self._ended:
            self._ended = True
            complain("the container is being stopped")
            ending.order(self._directory, order)


def exit_status(work: str, *, ended: bool) -> int:
    """Return the exit status of the container: that of its attempt, if it has had exactly one.

    ``work``: the experiment's directory. ``ended``: the container was ordered to end by SIGTERM. Without
    exactly one attempt, the status is that of a process killed by SIGTERM if ``ended``, else 0. If the
    attempt was stopped and exits with 0, the status is also that of SIGTERM if ``ended``.
    """
    told = BY_SIGNAL + signal.SIGTERM if ended else 0
    found = [each for each in map(claim.read, _attempts(work)) if each is not None and each.pid is not None]
    if len(found) != 1:
        return told
    [attempt] = found
    if attempt.failed is not None:
        return NOT_STARTED
    if attempt.exit is None:  # its shim was killed
        return BY_SIGNAL + signal.SIGKILL
    number = BY_SIGNAL + attempt.exit.signal if attempt.exit.signal is not None else attempt.exit.code or 0
    return number or (told if attempt.exit.signalled else 0)


def _attempts(work: str) -> list[str]:
    """Return, for each attempt in the experiment's directory, the beginning of the paths of its files."""
    folder, suffix = f"{work}/{KEEPER}/{claim.FOLDER}", f".{claim.NAME}"
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [f"{folder}/{name[: -len(claim.NAME)]}" for name in names if name.endswith(suffix)]


def _prepare(manager: str, work: str, directory: str) -> None:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    link = f"{directory}/manager.json"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link)
    os.symlink(f"{manager}/manager.json", link)
    ending.prepare(directory, os.environ)


def _environment(work: str) -> dict[str, str]:
    """Return the environment of keeper and trials, with a writable home and folder for temporary files."""
    environ = dict(os.environ)
    environ.setdefault("NNIMGR_HOME", work)
    if not os.access(environ.get("HOME") or "/nonexistent", os.W_OK):
        environ["HOME"] = f"{work}/home"
        os.makedirs(environ["HOME"], mode=0o700, exist_ok=True)
    if not os.access(environ.get("TMPDIR") or "/tmp", os.W_OK):
        environ["TMPDIR"] = f"{work}/tmp"
        os.makedirs(environ["TMPDIR"], mode=0o700, exist_ok=True)
    return environ


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}"
    return f"exit status {os.WEXITSTATUS(status)}"


def _give_up(sentence: str) -> NoReturn:
    complain(sentence)
    sys.exit(UNUSABLE)
