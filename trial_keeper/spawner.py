"""The spawner: a small process that forks one shim per attempt. The keeper forks it before most imports.

Each imported module would cost every shim time and memory, so this module and ``shim`` import very little.
The spawner reads requests from one pipe and reports failed shims through another pipe. It ends when the
keeper closes the pipe of requests; the shims continue.

A request consists of its length (4 bytes, big endian) and its fields. Each field has its own length before
it::

    job id, boot id, directory, command, cwd, parameter, cap of a log in bytes, prefix of the keeper's files,
    file of the lease or nothing, then any number of NAME=value, or NAME to unset a variable

The command is one for a shell, or CREW and the arguments of ``crew.run`` with NUL between them.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C module: ``signal`` builds enums, which every shim would pay for
import gc
import os
import select

from trial_keeper import shim
from trial_keeper.log import complain
from trial_keeper.machine import prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trial_keeper.idle_shims import Pool

REHEARSALS = 8  # CPython changes a function's code in its first runs, which would cost each shim 100 KiB
CREW = "crew\0"
_CREW = CREW.encode()
_COMMAND = 3  # index of a field


def pack(fields: Iterable[bytes]) -> bytes:
    """Return the bytes of a request with these fields, to be written to the spawner's pipe."""
    body = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return len(body).to_bytes(4, "big") + body


def unpack(body: bytes) -> list[bytes]:
    """Return the fields in the ``body`` of a request, which is the request without its leading length."""
    fields = []
    at = 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        fields.append(body[at + 4 : end])
        at = end
    return fields


def _shim_of(fields: list[bytes], wake: int) -> shim.Shim:
    """Return the shim for a request."""
    if fields[_COMMAND].startswith(_CREW):
        from trial_keeper.crew_shim import CrewShim

        return CrewShim(fields, wake)
    return shim.Shim(fields, wake)


def _foresee(fields: list[bytes]) -> None:
    """Import what this attempt's shim will need, before the fork, so that shims share it."""
    shim.foresee(fields)
    if fields[_COMMAND].startswith(_CREW):
        import trial_keeper.crew_shim  # noqa: F401


def run(
    requests: int,
    failures: int,
    wake: int,
    rehearsal: str | None,
    kind: Callable[[list[bytes], int], shim.Shim] = _shim_of,
    pool: Pool | None = None,
) -> None:
    """Fork a shim for each request that arrives in the pipe ``requests``, until the keeper closes the pipe.

    The spawner writes a line ``<job id> <wait status>`` to the pipe ``failures`` for each failed shim. Shims
    write their notices to the pipe ``wake``. ``rehearsal``: path of a directory to create and remove; None:
    do without a rehearsal. ``kind``: makes the shims. ``pool``: idle shims, which take requests before
    others are forked.
    """
    subreaper = _subreaper()
    for number in (_signal.SIGHUP, _signal.SIGINT):
        _signal.signal(number, _signal.SIG_IGN)
    for number in (_signal.SIGCHLD, _signal.SIGTERM):  # before any fork: shims inherit the handlers
        _signal.signal(number, _ignore)
    environ = dict(os.environb)
    if rehearsal is not None:
        for _ in range(REHEARSALS):
            shim.rehearse(rehearsal, environ)
    pulse, beat = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    _signal.set_wakeup_fd(beat, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(pulse, select.POLLIN)
    if pool is not None:
        pool.begin(poll)
    shims: dict[int, bytes] = {}
    buffer = b""
    gc.disable()
    gc.freeze()  # else a collection in a shim would write to, and thus copy, every page
    while True:
        for fd, _ in poll.poll() if pool is None else pool.wait():
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
                _foresee(fields)
                pid = 0 if pool is None else pool.hand(fields)
                if pid == 0:
                    pid = _fork(fields[0], failures, pool)
                    if pid == 0:
                        others = () if pool is None else pool.descriptors()
                        inherited = (requests, failures, pulse, beat, *others)
                        shim.main(fields, environ, wake, inherited, subreaper, kind)
                    if pool is not None:
                        pool.forked(fields, pid)
                if pid > 0:
                    shims[pid] = fields[0]


def _fork(job: bytes, failures: int, pool: Pool | None) -> int:
    try:
        if pool is not None:
            pool.prepare()
        return os.fork()
    except OSError as error:
        os.write(failures, b"%s -%d\n" % (job, error.errno or 0))
        return -1


def _reap(shims: dict[int, bytes], failures: int) -> None:
    """Reap shims that have ended.

    Report failed shims to the keeper, because they may not have claimed their attempt.
    """
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
    """Return a function that makes a shim the parent of its orphaned descendants.

    The shim calls it after the fork. Also make the kernel kill the spawner when the keeper, its parent, ends.
    Shims do not inherit this setting.
    """
    call = prctl.loaded()
    call(prctl.DEATH_SIGNAL, int(_signal.SIGKILL))  # else a suspended spawner would stay forever

    def become() -> None:
        if call(prctl.SUBREAPER, 1) != 0:
            complain("shim: cannot become a sub-reaper: daemonised children may survive")

    return become


def _ignore(number: int, frame: object) -> None:
    """Do nothing. The handler exists because Python then writes the signal to the wake-up pipe."""
