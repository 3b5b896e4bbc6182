"""The zygote: a process from which the children of built-in algorithms are forked, one for each request.

``python -m nnimgr.dispatcher.zygote N``, started by ``nnimgr.dispatcher.forking``. Descriptor N is a socket.
A request is the name of an algorithm with four descriptors: the child's input, output and log, and a socket
for its status.
The zygote writes the child's process id into that socket, and its wait status once the child has ended. A
negative number instead of the process id is the error of a fork that failed. The zygote ends when the socket
of the requests is closed.

The modules that the zygote has imported are in memory once for all children. Most are imported at its start,
and large ones after the first request for an algorithm that uses them, when nothing is asked for. BLAS is
limited to one thread in the zygote, because a process with several threads cannot be forked safely.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable

from nnimgr.child import die_with_parent, name_process
from nnimgr.dispatcher import worker

__all__ = ["PRELOADED", "PRELOADED_LATER", "main"]

PRELOADED = (
    "nnimgr.assessors.asha",
    "nnimgr.assessors.curvefitting",
    "nnimgr.assessors.medianstop",
    "nnimgr.assessors.patient",
    "nnimgr.assessors.percentile",
    "nnimgr.assessors.threshold",
    "nnimgr.assessors.wilcoxon",
    "nnimgr.dispatcher.scheduler",
    "nnimgr.schedulers.asha",
    "nnimgr.schedulers.hyperband",
    "nnimgr.schedulers.pb2",
    "nnimgr.schedulers.pbt",
    "nnimgr.schedulers.pbt_replay",
    "nnimgr.schedulers.resources",
    "nnimgr.tuners.asha",
    "nnimgr.tuners.batch",
    "nnimgr.tuners.bohb",
    "nnimgr.tuners.gridsearch",
    "nnimgr.tuners.hyperband",
    "nnimgr.tuners.pbt",
    "nnimgr.tuners.random",
    "nnimgr.tuners.tpe",
    "nnimgr.tuners.tpe_legacy",
)
# Large modules that the children of an algorithm import when they need them.
PRELOADED_LATER = {"TPE": "nnimgr.tuners.tpe_model"}
_QUIET_MS = 1000  # time without a request after which such a module is imported
_LONGEST_NAME = 256  # bytes
_DESCRIPTORS = 4
_MOST_DESCRIPTORS = 1 << 20


def main(requests_fd: int) -> int:
    """Fork a child for each request on the socket. Return 0, or in each child the result of
    ``worker.main``.
    """
    die_with_parent()
    name_process("nnimgr-zygote")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when numpy is imported; children get their own variables
    _import(PRELOADED)
    gc.disable()
    is_child = _serve(socket.socket(fileno=requests_fd))
    return worker.main() if is_child else 0


def _import(modules: Iterable[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would write to every page, and thus copy the page


def _serve(requests: socket.socket) -> bool:
    """Fork a child for each request. Return False when the socket is closed, and True in each child."""
    pulse, beat = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(beat, warn_on_full_buffer=False)
    # the handler does nothing, because the signal also writes a byte into the wake-up pipe, which is enough
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(pulse, select.POLLIN)
    statuses: dict[int, int] = {}  # child -> its status socket
    later: set[str] = set()  # modules to import when it is quiet
    while True:
        ready = poll.poll(_QUIET_MS if later else None)
        if not ready:
            with contextlib.suppress(ImportError):  # an algorithm without its library says so itself
                _import(later)
            later.clear()
        for fd, _ in ready:
            if fd == pulse:
                os.read(pulse, 512)
                _reap(statuses)
                continue
            request, descriptors, _, _ = socket.recv_fds(requests, _LONGEST_NAME, _DESCRIPTORS)
            if not request:
                return False
            if (module := PRELOADED_LATER.get(request.decode())) is not None and module not in sys.modules:
                later.add(module)
            *standard, status = descriptors
            pid = _fork()
            if pid == 0:
                requests.detach()
                _become_child(standard)
                return True
            for each in standard:
                os.close(each)
            _report(status, pid)
            if pid > 0:
                statuses[pid] = status
            else:
                os.close(status)


def _fork() -> int:
    """Fork this process. Return the child's process id, 0 in the child, or the negative error number."""
    try:
        return os.fork()
    except OSError as error:
        return -(error.errno or 1)


def _become_child(standard: list[int]) -> None:
    """Leave the zygote's session, signal handlers and descriptors, and take over the child's descriptors."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, each in enumerate(standard):
        os.dup2(each, number)
    os.closerange(len(standard), _MOST_DESCRIPTORS)


def _reap(statuses: dict[int, int]) -> None:
    """Reap the children that have ended, and write their wait statuses to their status sockets."""
    while statuses:
        pid, wait_status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        status = statuses.pop(pid)
        _report(status, wait_status)
        os.close(status)


def _report(status: int, number: int) -> None:
    try:
        os.write(status, b"%d\n" % number)
    except BrokenPipeError:
        pass  # the server has closed this child


if __name__ == "__main__":
    from trial_keeper.machine.encoding import use_utf8

    use_utf8()
    sys.exit(main(int(sys.argv[1])))
