"""The warm spawner: imports modules once, and forks the trials of a Python function from there.

The keeper starts it with the trials' interpreter if the experiment has ``preload``. It works like
``spawner``, but a shim forks its command instead of executing a shell. The fork has the modules already, and
runs a function or class as ``nni.run`` does. The command in a request is FILE:NAME.

The first line in the pipe of failures is ``READY``, or ``REFUSED`` and a sentence.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import os
import sys
import threading

from trial_keeper import forked, shim, spawner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, ClassVar, NoReturn

    from trial_keeper.worker import Worker

READY = "ready"
REFUSED = "refused"
# A variable in the environment of this program. Forks write NNIMGR_JOB_ID and NNI_SYS_DIR over it, because
# the keeper finds the processes of an attempt by their environment in /proc, which is that of their program.
ROOM = "NNIMGR_WARM"
ROOM_BYTES = 8192
_MARKS = (b"NNIMGR_JOB_ID", b"NNI_SYS_DIR")
_ENV_START = 47  # index in /proc/PID/stat, counted from the field after the name
_CANNOT_FLUSH = 120  # exit status of Python if its standard output cannot be written


class WarmShim(shim.Shim):
    """Shim that forks its command from this process.

    ``kept``: descriptors that trials inherit. ``room``: address and length of ROOM.
    """

    __slots__ = ()

    kept: ClassVar[set[int]] = set()
    room: ClassVar[tuple[int, int]] = (0, 0)

    def _execute(self, environ: dict[bytes, bytes], outputs: list[int]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(environ, outputs, parent)
        return pid

    def _become(
        self, environ: dict[bytes, bytes], outputs: list[int], parent: int, worker: Worker | None = None
    ) -> NoReturn:
        """Become the attempt's command in this process, which was just forked by the shim, and exit.

        ``worker``: gives further trials to this process, or None.
        """
        kept = self.kept if worker is None else {*self.kept, worker.fileno()}
        run_trial(os.fsdecode(self._command), environ, outputs, parent, kept, self.room, worker)


def run(requests: int, failures: int, wake: int, modules: list[str]) -> NoReturn:
    """Import the modules, then fork a shim for each request. The arguments are those of ``spawner.run``."""
    prepare(requests, failures, wake, modules)
    spawner.run(requests, failures, wake, None, WarmShim)
    os._exit(0)


def prepare(requests: int, failures: int, wake: int, modules: list[str]) -> None:
    """Import the modules, and report that this process is ready.

    If it cannot be used, report why, and exit.
    """
    importlib.import_module("trial_keeper.attempt.deadline")  # shims need it, and will not find it
    del sys.path[0]  # the folder of this package, from which trials must import nothing
    ours = (requests, failures, wake)
    for fd in ours:
        os.set_inheritable(fd, False)
    try:
        room = _find_room()
        _import(modules)
    except Exception as error:
        os.write(failures, f"{REFUSED} {_sentence(error)}\n".encode(errors="replace"))
        os._exit(0)
    os.environ.pop(ROOM, None)
    WarmShim.kept = set(forked.descriptors()).difference(ours)
    WarmShim.room = room
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(failures, f"{READY}\n".encode())


def _import(modules: list[str]) -> None:
    """Import the modules, and those of our trial API. Raise ValueError or ImportError with a sentence."""
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:
            raise ImportError(f"cannot import {name}: {type(error).__name__}: {error}") from error
        if threading.active_count() > 1:
            raise ValueError(f"the import of {name} starts a thread, which the trials would not have")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise ValueError("the imports initialize CUDA, which processes cannot share")
    try:
        importlib.import_module("nni.run")
    except ImportError as error:
        raise ImportError(f"cannot import nni.run: {error}") from error


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())


def _find_room() -> tuple[int, int]:
    """Return the address and the length of ROOM in the environment that /proc shows. Raise ValueError."""
    with open("/proc/self/stat", "rb") as file:
        text = file.read()
    start = int(text[text.rfind(b")") + 2 :].split()[_ENV_START])
    with open("/proc/self/environ", "rb") as file:
        environ = file.read()
    at = environ.find(ROOM.encode() + b"=")
    if start == 0 or at < 0:
        raise ValueError("the kernel does not show where the environment is")
    return start + at, environ.index(b"\0", at) - at


def run_trial(
    target: str,
    environ: dict[bytes, bytes],
    outputs: list[int],
    parent: int,
    kept: set[int],
    room: tuple[int, int],
    worker: Worker | None,
) -> NoReturn:
    """Run the function or class ``target`` in this process, and exit. See ``WarmShim``."""
    status = 1
    try:
        forked.begin(environ, outputs, parent, kept)
        label(environ, room)
        _start_fresh()
        sys.path.insert(0, os.getcwd())
        sys.argv = ["nni.run", target]
        main = sys.modules["nni.run"].main
        status = _finish(main if worker is None else lambda: main(worker))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(status)


def label(environ: dict[bytes, bytes], room: tuple[int, int]) -> None:
    """Write the attempt's marks into the environment that /proc shows for this process and its forks."""
    address, length = room
    text = b"".join(b"%s=%s\0" % (name, environ[name]) for name in _MARKS if name in environ)
    if len(text) <= length:
        ctypes.memmove(address, text.ljust(length, b"\0"), length)


def _start_fresh() -> None:
    """Undo what this process has from the spawner: no collections, one state of random numbers for all."""
    gc.enable()
    numpy = sys.modules.get("numpy")  # Python's own module ``random`` is seeded anew at each fork
    if numpy is not None:
        numpy.random.seed()
    if os.environ.get("PYTHONUNBUFFERED"):
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(write_through=True)  # type: ignore[union-attr]


def _finish(main: Callable[[], int]) -> int:
    """Call the trial's program, end like a Python that has reached its end, and return the exit status."""
    try:
        status = _status(main)
        threading._shutdown()  # type: ignore[attr-defined]
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return status or _CANNOT_FLUSH
    return status


def _status(main: Callable[[], int]) -> int:
    try:
        return main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
