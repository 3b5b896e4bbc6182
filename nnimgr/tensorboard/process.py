"""Process of one TensorBoard: find a Python that has TensorBoard, start the process, end it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nnimgr.child import how_it_ended
from nnimgr.tensorboard import launcher

__all__ = ["Interpreter", "TensorBoardMissing", "TensorBoardProcess", "find_interpreter"]

# Names of the creator's environment variables that TensorBoard gets. Others may be secrets.
_KEPT = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "HOME", "USER", "LOGNAME", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ"),
)
_SEARCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorboard') is None)"
_SEARCH_S = 30.0
_BACKLOG = 128
_LONGEST_LINE = 256  # most bytes of the first line of a script
_TAIL_BYTES = 4096
_LAST_OUTPUT_S = 1.0


class TensorBoardMissing(Exception):
    """Error: no known Python has TensorBoard. The message names the command that installs it."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Python interpreter, and the environment variables of its user, which may contain secrets."""

    python: str
    environ: Mapping[str, str] = field(repr=False)

    @property
    def kept(self) -> dict[str, str]:
        """Environment variables that TensorBoard needs. The others may be secrets and are left out."""
        return {name: self.environ[name] for name in _KEPT if name in self.environ}


async def find_interpreter(creator: Interpreter, trying: Callable[[str], None]) -> Interpreter:
    """Return the first interpreter that has TensorBoard. Raise TensorBoardMissing.

    ``trying``: function that is called with a sentence before each search in an interpreter.

    The candidates are the Python of the experiment's creator, the server's Python, and the Python of the
    command ``tensorboard`` on the creator's PATH and on the server's PATH.
    """
    for candidate in _candidates(creator):
        trying(f"asking {candidate.python} for at most {_SEARCH_S:.0f} s whether it has TensorBoard")
        if await _has_tensorboard(candidate):
            return candidate
    raise TensorBoardMissing(
        f"TensorBoard is not installed for the experiment's Python. Install it: "
        f"{creator.python} -m pip install tensorboard"
    )


def _candidates(creator: Interpreter) -> Iterator[Interpreter]:
    server = Interpreter(sys.executable, os.environ)
    seen = set()
    for each in (creator, server):
        for python in (each.python, _python_of_command(each.environ.get("PATH", ""))):
            key = (python, each.environ.get("PYTHONPATH"))
            if python is not None and key not in seen:
                seen.add(key)
                yield Interpreter(python, each.environ)


def _python_of_command(path: str) -> str | None:
    """Return the Python in the first line of the script ``tensorboard``, or None if there is none."""
    command = shutil.which("tensorboard", path=path)
    if command is None:
        return None
    try:
        with open(command, "rb") as file:
            line = file.readline(_LONGEST_LINE).decode()
    except (OSError, UnicodeDecodeError):
        return None
    python = line.removeprefix("#!").strip()
    return python if line.startswith("#!/") and "python" in os.path.basename(python) else None


async def _has_tensorboard(interpreter: Interpreter) -> bool:
    """Return whether the Python interpreter has TensorBoard. TensorBoard is searched, but not imported."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(interpreter.python, "-c", _SEARCH),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=interpreter.kept,
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(_SEARCH_S):
            return await process.wait() == 0
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            _kill_group(process.pid)
            await process.wait()


class TensorBoardProcess:
    """Running TensorBoard process. ``address``: path of the Unix socket at which it serves."""

    def __init__(
        self, process: asyncio.subprocess.Process, address: str, cleanup: contextlib.ExitStack
    ) -> None:
        self._process, self._cleanup = process, cleanup
        self.pid, self.address = process.pid, address
        self._tail = b""
        self._listening = asyncio.create_task(self._listen(), name=f"tensorboard:{process.pid}")

    @classmethod
    async def start(
        cls, interpreter: Interpreter, *, socket_path: Path, folder: Path, logdir: Path, prefix: str
    ) -> TensorBoardProcess:
        """Start a TensorBoard process for the event files in ``logdir``. Raise OSError.

        ``socket_path``: path of the new Unix socket, in a folder that only the server's user can enter.
        Connections wait there until TensorBoard accepts them. ``folder``: place for temporary files.
        ``prefix``: path before all addresses of TensorBoard.
        """
        with contextlib.ExitStack() as cleanup:
            address = _short_address(socket_path, cleanup)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(address)
                cleanup.callback(socket_path.unlink, missing_ok=True)
                listener.listen(_BACKLOG)
                process = await asyncio.create_subprocess_exec(
                    *(interpreter.python, launcher.__file__),
                    *(str(os.getpid()), str(listener.fileno()), str(logdir), prefix),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    # No GPU is visible, because TensorFlow, if installed, would reserve the memory of all
                    # GPUs.
                    env={**interpreter.kept, "TMPDIR": str(folder), "CUDA_VISIBLE_DEVICES": ""},
                    cwd=folder,
                    start_new_session=True,
                    pass_fds=(listener.fileno(),),
                )
            return cls(process, address, cleanup.pop_all())

    async def ended(self) -> str:
        """Wait until the process has ended. Return a sentence that says how it ended."""
        await self._process.wait()
        _kill_group(self.pid)  # processes that a plugin has started
        # Use a time limit, because a process that has left the process group may still hold the pipe open.
        await asyncio.wait({self._listening}, timeout=_LAST_OUTPUT_S)
        self._listening.cancel()
        self._cleanup.close()
        lines: Sequence[str] = [line for line in self._tail.decode(errors="replace").splitlines() if line]
        sentence = f"TensorBoard {how_it_ended(self._process.returncode)}"
        return f"{sentence}; its last output: {lines[-1][:300]}" if lines else f"{sentence}."

    def kill(self) -> None:
        """Kill the process and all processes that it has started. TensorBoard has no data to be saved."""
        if self._process.returncode is None:
            _kill_group(self.pid)

    async def _listen(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        while text := await stream.read(_TAIL_BYTES):
            self._tail = (self._tail + text)[-_TAIL_BYTES:]


def _short_address(path: Path, cleanup: contextlib.ExitStack) -> str:
    """Return a path of the socket that is short enough for the kernel.

    The path is valid until ``cleanup`` is closed.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    cleanup.callback(os.close, folder)
    return f"/proc/self/fd/{folder}/{path.name}"


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
