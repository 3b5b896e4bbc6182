"""Reads and writes the files of attempts."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time

from trial_keeper.attempt import claim, frames
from trial_keeper.core import effects as fx
from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.machine import procs

if TYPE_CHECKING:
    from typing import Mapping

    from trial_keeper.core.attempt import Attempt

PIECE = 4 << 20
_READ = 1 << 20
_BEGINNING = 1 << 16  # bytes of standard output to search
_PRINTED = b"NNISDK_ME"
CHECKPOINTS = "checkpoints"  # in an attempt's folder: one folder for each checkpoint, named by its number
ASKS, SAVE = ".nni/asks", ".nni/save"  # in the attempt's folder; see ``ask_save``
STAY = b"stay"  # content of the file SAVE if the trial runs on after the save


class AttemptFiles(NamedTuple):
    """Location of the files of one attempt.

    ``directory``: the trial's folder. ``prefix``: beginning of the paths of the files that the keeper itself
    has for the attempt.
    """

    directory: str
    prefix: str


class Paths:
    """Builder of the paths of attempts' files.

    ``attempts``: all attempts that the keeper manages, by job id.
    """

    def __init__(self, experiment: str, attempts: Mapping[str, Attempt]) -> None:
        self._experiment = experiment
        self._attempts = attempts

    def folder(self, directory: str) -> str:
        """Return the path of a trial's folder."""
        return f"{self._experiment}/{directory}"

    def prefix(self, job: str, directory: str) -> str:
        """Return the beginning of the paths of the files that the keeper itself has for an attempt.

        The path is relative to the keeper's folder, because users may move folders.
        """
        attempt = self._attempts.get(job)
        if attempt is None or attempt.apart:
            return claim.prefix(".", job)
        return claim.old_prefix(self.folder(directory))

    def files(self, effect: fx.Read | fx.Count | fx.Watch) -> AttemptFiles:
        """Return the location of the files of the attempt to which this effect belongs."""
        return AttemptFiles(self.folder(effect.directory), self.prefix(effect.job, effect.directory))


def look(prefix: str, shim: fx.Shim | None) -> fx.Seen:
    """Read an attempt's claim file and check whether the attempt's shim still runs.

    ``shim`` is the shim if the caller knows it; if it is None, the shim that the claim file names is checked.
    """
    found = claim.read(prefix)
    if found is not None and (found.pid is None or found.exit is not None or found.failed is not None):
        return fx.Seen(found, False, time.time())
    if shim is None and found is not None and found.pid is not None:
        shim = (found.pid, found.start_time)
    if shim is None or procs.start_time(shim[0]) == shim[1]:
        return fx.Seen(found, shim is not None, time.time())
    return fx.Seen(claim.read(prefix), False, time.time())  # the process writes its end before it exits


def abort(prefix: str, boot_id: str) -> None:
    """Create the attempt's claim file in place of a shim, so that no shim can start the attempt any more.

    Do nothing if the claim file exists. Raises OSError.
    """
    os.makedirs(os.path.dirname(prefix), mode=0o700, exist_ok=True)
    fd = claim.take(prefix, f"aborted {boot_id}\n".encode())
    if fd is not None:
        os.close(fd)


def stop(prefix: str, shim: fx.Shim, grace: float) -> None:
    """Make this shim stop its attempt: write the grace to a file, then send SIGTERM to the shim.

    Send nothing if another process has the shim's pid by now. SIGCONT wakes a suspended shim. Raises OSError
    if the signal could not be sent, or if the grace could not be written; then the shim uses its default
    grace.
    """
    try:
        _replace(f"{prefix}{claim.STOP}", repr(grace).encode())
    finally:
        _signal(shim, signal.SIGTERM, signal.SIGCONT)


def kill(prefix: str, shim: fx.Shim) -> None:
    """Send SIGKILL to this shim, unless another process has the shim's pid by now.

    Do nothing if the attempt has ended, because the shim may run another attempt by now.
    """
    with contextlib.suppress(OSError):
        found = claim.read(prefix)
        if found is None or found.exit is None:
            _signal(shim, signal.SIGKILL)


def _signal(shim: fx.Shim, *numbers: int) -> None:
    pid, start = shim
    for number in numbers:
        if procs.start_time(pid) == start:
            os.kill(pid, number)


def write_parameter(directory: str, index: int, parameter: str) -> None:
    """Write a parameter set into the trial's folder, where the trial's command reads it. Raises OSError.

    Set number 0 is the one with which the trial starts. A trial may get further sets while it runs.
    """
    os.makedirs(directory, exist_ok=True)  # the shim may not have created the folder yet
    name = f"parameter_{index}.cfg" if index else "parameter.cfg"
    _replace(f"{directory}/{name}", parameter.encode())


def ask_save(directory: str, *, stays: bool) -> bool:
    """Ask the trial to save its state. Return False if the trial does not look for such requests.

    ``stays``: the trial runs on after the save; otherwise it will be stopped.

    ``nni.should_checkpoint`` creates the file ASKS when it is first called, and looks for the file SAVE.
    ``nni.save_checkpoint`` removes the file SAVE.
    """
    if not looks_for_saves(directory):
        return False
    try:
        _replace(f"{directory}/{SAVE}", STAY if stays else b"")
    except OSError:
        return False
    return True


def looks_for_saves(directory: str) -> bool:
    """Return whether the trial looks for requests to save its state, with ``nni.should_checkpoint``."""
    return os.path.lexists(f"{directory}/{ASKS}")


def save_waits(directory: str) -> bool:
    """Return whether the trial has not saved its state yet after ``ask_save``."""
    return os.path.lexists(f"{directory}/{SAVE}")


def read(files: AttemptFiles, order: fx.Read) -> fx.Chunk:
    """Read frames from the attempt's metrics file; each frame is one metric. A missing file has no frames."""
    piece, size = _piece(files, order.offset, _READ + frames.HEADER if order.skip == 0 else PIECE)
    cut = frames.cut(piece, skip=order.skip, frames=order.frames, size=order.size, first=order.first)
    more = cut.full or (len(piece) < size - order.offset and cut.end > 0)
    return fx.Chunk(cut.payloads, cut.skipped, order.offset + cut.end, cut.bad, more and not cut.bad)


def count(files: AttemptFiles, offset: int) -> fx.Tally:
    """Count the frames, one per metric, in the piece of the metrics file that begins at ``offset``."""
    piece, size = _piece(files, offset, PIECE)
    cut = frames.count(piece)
    more = len(piece) < size - offset and cut.end > 0 and not cut.bad
    printed = size == 0 and _has_printed(files)
    return fx.Tally(cut.skipped, offset + cut.end, cut.bad, more, size, time.time(), printed)


def _has_printed(files: AttemptFiles) -> bool:
    """Return whether the trial has printed its results to standard output instead of writing a metrics file.

    NNI's SDK does this if the variable NNI_PLATFORM is not "local".
    """
    try:
        fd = os.open(f"{files.directory}/stdout", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _PRINTED in os.read(fd, _BEGINNING)
    except OSError:
        return False
    finally:
        os.close(fd)


def stream(files: AttemptFiles) -> str:
    """Return the path at which the keeper reads an attempt's metrics: its own hard link to the trial's file.

    If the trial clears its folder, only the trial's name of the file disappears. If the linked file is empty
    and the trial has created another file, the link is moved to that file. The trial's own path is returned
    if there is no hard link, as with attempts that an older version of the keeper has started.
    """
    own, theirs = f"{files.prefix}{claim.STREAM}", f"{files.directory}/{claim.METRICS}"
    try:
        first = os.stat(own, follow_symlinks=False)
    except OSError:
        return theirs
    if first.st_size == 0:
        with contextlib.suppress(OSError):
            _adopt(theirs, own, instead_of=first)
    return own


def has_metrics(prefix: str) -> bool:
    """Return whether the attempt's metrics file has content, read through the keeper's own hard link."""
    try:
        return os.stat(f"{prefix}{claim.STREAM}", follow_symlinks=False).st_size > 0
    except OSError:
        return False


def is_parted(files: AttemptFiles) -> bool:
    """Return whether the trial has deleted its own hard link to the metrics file.

    Then only the keeper's link is left, and the trial may create another metrics file.
    """
    try:
        return os.stat(f"{files.prefix}{claim.STREAM}").st_nlink == 1
    except OSError:
        return False


def _adopt(theirs: str, own: str, *, instead_of: os.stat_result) -> None:
    """Move the keeper's hard link ``own`` from the file ``instead_of`` to the trial's plain file ``theirs``.

    Do nothing if ``theirs`` is the file ``instead_of``, or is not a plain file. Raises OSError.
    """
    found = os.stat(theirs, follow_symlinks=False)
    if stat.S_ISREG(found.st_mode) and not os.path.samestat(found, instead_of):
        new = f"{own}.{os.getpid()}"
        os.link(theirs, new, follow_symlinks=False)
        os.rename(new, own)


def _piece(files: AttemptFiles, offset: int, limit: int) -> tuple[bytes, int]:
    """Return the bytes of the metrics file from ``offset`` on, at most ``limit``, and the size of the file.

    Never block, even if the trial has replaced the file by a pipe.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        fd = os.open(stream(files), flags)
    except OSError:
        return b"", 0
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size <= offset:
            return b"", found.st_size
        return os.pread(fd, min(limit, found.st_size - offset), offset), found.st_size
    finally:
        os.close(fd)


def _replace(path: str, content: bytes) -> None:
    """Replace the file ``path`` by a new file with this content. Raises OSError.

    The temporary file is always a new one, so that a link which a trial has put there is never followed.
    """
    own = f"{path}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(own)
    try:
        fd = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with open(fd, "wb") as file:
            file.write(content)
        os.rename(own, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(own)
        raise
