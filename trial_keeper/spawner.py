"""The spawner: a lean process, forked before the keeper imports anything, that forks one shim per attempt.

What it never imported no shim pays for (time and memory), so this module and ``shim`` import next to nothing.
It reads requests from one pipe and writes to the other which shims failed; it ends when the keeper's end of
the pipe is closed, and no shim minds.

A request is a length (4 bytes, big endian) and so many bytes of fields, each a length and its bytes::

    job id, boot id, directory, command, cwd, parameter, cap of a log in bytes, prefix of the keeper's files,
    file of the lease or nothing, then any number of NAME=value, or NAME to unset it
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C module: ``signal`` builds enums, which every shim would pay for
import gc
import os
import select

from trial_keeper import shim
from trial_keeper.log import complain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

REHEARSALS = 8  # CPython writes to a function's code until it has run so often: 100 KiB that each shim copied
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def pack(fields: Iterable[bytes]) -> bytes:
    """A request as it goes through the pipe."""
    body = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return len(body).to_bytes(4, "big") + body


def unpack(body: bytes) -> list[bytes]:
    """The fields of a request (without its own length)."""
    fields = []
    at = 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        fields.append(body[at + 4 : end])
        at = end
    return fields


def run(requests: int, failures: int, wake: int, rehearsal: str) -> None:
    """Serve until ``requests`` ends. ``failures`` gets lines ``<job id> <wait status>``, ``wake`` job ids.

    ``rehearsal``: a directory that may be made, and removed.
    """
    subreaper = _subreaper()
    for number in (_signal.SIGHUP, _signal.SIGINT):
        _signal.signal(number, _signal.SIG_IGN)
    for number in (_signal.SIGCHLD, _signal.SIGTERM):  # in place before any fork: a shim inherits them
        _signal.signal(number, _ignore)
    environ = dict(os.environb)
    for _ in range(REHEARSALS):
        shim.rehearse(rehearsal, environ)
    pulse, beat = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    _signal.set_wakeup_fd(beat, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(pulse, select.POLLIN)
    shims: dict[int, bytes] = {}
    buffer = b""
    gc.disable()
    gc.freeze()  # a collection in a shim would touch, and so copy, every page
    while True:
        for fd, _ in poll.poll():
            if fd == pulse:
                os.read(pulse, 512)
                _reap(shims, failures)
                continue
            chunk = os.read(requests, 65536)
            if not chunk:
                return
            buffer += chunk
            while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "big")):
                fields = unpack(buffer[4:end])
                buffer = buffer[end:]
                shim.foresee(fields)
                pid = _fork(fields[0], failures)
                if pid == 0:
                    shim.main(fields, environ, wake, (requests, failures, pulse, beat), subreaper)
                elif pid > 0:
                    shims[pid] = fields[0]


def _fork(job: bytes, failures: int) -> int:
    try:
        return os.fork()
    except OSError as error:
        os.write(failures, b"%s -%d\n" % (job, error.errno or 0))
        return -1


def _reap(shims: dict[int, bytes], failures: int) -> None:
    """Collect the shims that ended; a failed one may have died before its claim, so the keeper is told."""
    while shims:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        job = shims.pop(pid, None)
        if job is not None and status != 0:
            os.write(failures, b"%s %d\n" % (job, status))


def _subreaper() -> Callable[[], None]:
    """Return a function that makes orphans of the calling process's tree its own children.

    The spawner itself is to end with the keeper, its parent. Shims do not inherit that.
    """
    import _ctypes  # the C module: what ``ctypes`` puts around it costs a shim 80 KiB

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    call = _ctypes.call_cdeclfunction
    call(
        prctl, (_DEATH_SIGNAL, int(_signal.SIGKILL), 0, 0, 0)
    )  # else a suspended spawner would stay for ever

    def become() -> None:
        if call(prctl, (_SUBREAPER, 1, 0, 0, 0)) != 0:
            complain("shim: cannot become a sub-reaper: daemonised children may survive")

    return become


def _ignore(number: int, frame: object) -> None:
    """The byte in the wake-up pipe says it all."""
