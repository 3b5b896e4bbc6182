"""The files of the attempts, as the keeper reads and writes them."""

from __future__ import annotations

import os
import signal
import time

from trial_keeper import claim, frames, procs
from trial_keeper import effects as fx

PIECE = 4 << 20
_READ = 1 << 20


def look(directory: str) -> fx.Seen:
    """The claim of the attempt in ``directory``, and whether its process runs."""
    found = claim.read(directory)
    if found is None or found.pid is None or found.exit is not None or found.failed is not None:
        return fx.Seen(found, False, time.time())
    if procs.start_time(found.pid) == found.start_time:
        return fx.Seen(found, True, time.time())
    return fx.Seen(claim.read(directory), False, time.time())  # what it wrote before it ended


def abort(directory: str, boot_id: str) -> None:
    """Take the claim so that nobody starts the attempt; no effect if it is taken. Raises OSError."""
    os.makedirs(f"{directory}/{claim.DIRECTORY}", exist_ok=True)
    fd = claim.take(directory, f"aborted {boot_id}\n".encode())
    if fd is not None:
        os.close(fd)


def stop(directory: str, shim: fx.Shim, grace: float) -> None:
    """Have this shim stop its attempt. A process that only has the same pid is left alone.

    Raises OSError if it was not signalled, or if the grace could not be written: the shim then takes its own.
    """
    pid, start = shim
    try:
        _replace(f"{directory}/{claim.DIRECTORY}/{claim.STOP}", repr(grace).encode())
    finally:
        if procs.start_time(pid) == start:
            os.kill(pid, signal.SIGTERM)


def write_parameter(directory: str, index: int, parameter: str) -> None:
    """Give the command parameter set number ``index`` (0: the one it was started with). Raises OSError."""
    os.makedirs(directory, exist_ok=True)  # its shim may not have come that far
    name = f"parameter_{index}.cfg" if index else "parameter.cfg"
    _replace(f"{directory}/{name}", parameter.encode())


def read(directory: str, order: fx.Read) -> fx.Chunk:
    """Frames of the metrics file. A missing file has none."""
    piece, size = _piece(directory, order.offset, _READ + frames.HEADER if order.skip == 0 else PIECE)
    cut = frames.cut(piece, skip=order.skip, frames=order.frames, size=order.size, first=order.first)
    more = cut.full or (len(piece) < size - order.offset and cut.end > 0)
    return fx.Chunk(cut.payloads, cut.skipped, order.offset + cut.end, cut.bad, more and not cut.bad)


def count(directory: str, offset: int) -> fx.Tally:
    """Count the frames of one piece of the metrics file."""
    piece, size = _piece(directory, offset, PIECE)
    cut = frames.count(piece)
    more = len(piece) < size - offset and cut.end > 0 and not cut.bad
    return fx.Tally(cut.skipped, offset + cut.end, cut.bad, more, size, time.time())


def _piece(directory: str, offset: int, limit: int) -> tuple[bytes, int]:
    try:
        fd = os.open(f"{directory}/{claim.METRICS}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b"", 0
    try:
        size = os.fstat(fd).st_size
        if size <= offset:
            return b"", size
        return os.pread(fd, min(limit, size - offset), offset), size
    finally:
        os.close(fd)


def _replace(path: str, content: bytes) -> None:
    own = f"{path}.{os.getpid()}"
    try:
        with open(own, "wb") as file:
            file.write(content)
        os.rename(own, path)
    except OSError:
        if os.path.exists(own):
            os.unlink(own)
        raise
