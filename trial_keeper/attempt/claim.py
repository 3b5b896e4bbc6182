"""The claim file of an attempt, which ensures that the attempt runs once, and records how it ended.

This module imports little, because the shim, the parent process of the attempt, uses it.

The file is created once, by ``link``, so exactly one process may start the attempt. Afterwards only that
process appends to the file. The file is in the keeper's own folder, which trials should leave alone. A trial
may still remove or overwrite the file, so its content is always checked. An incomplete last line is ignored.
The file has these lines::

    shim <pid> <start time> <boot id>          or: aborted <boot id>
    started <pid of the command> <unix seconds> <seconds since the boot>
            (again, if a resident process refuses the attempt and another one runs it)
    note <sentence that users should see>    (only if there is one)
    exit <code or -> <signal or -> <bytes in .nni/metrics> <1: a stop has ended it, 2: its lease, \
3: the kernel, for lack of memory, or 0> <unix seconds> <pids that could not be killed, with commas, or -> \
<one sentence, or nothing>
or  failed <unix seconds> <why the command could not be started>

The times of one attempt come from a steady clock that was set to the host's time when the shim began. Later
changes of the host's clock do not change how long the attempt took.
"""

from __future__ import annotations

import errno
import os
import stat

from trial_keeper.log import complain

# All files that the keeper has for an attempt have the same prefix: ``<keeper's folder>/attempts/<job>.``
FOLDER = "attempts"
NAME = "claim"
STOP = "stop"  # file with the grace in seconds, written before the shim is signalled
# hard link to the metrics file, which remains when the trial removes its own name of the file
STREAM = "metrics"
METRICS = ".nni/metrics"  # path in the trial's folder, where the trial's SDK writes
UNREACHED = ".nni/unreached"  # the crew makes this file in the trial's folder if it cannot reach its leader
OLD_FOLDER = ".nnimgr"  # in the trial's folder, where keepers before version 0.2 had these files


SEPARATOR = "\0"  # separator of the lines of a claim that a shim sends through the wake-up pipe


class Exit:
    """How the command of an attempt ended.

    ``signalled``: a stop has ended the command. ``lapsed``: the command was ended because its lease had
    expired. ``out_of_memory``: the kernel has killed the command for lack of memory. ``unreached``: the
    member of a gang could not reach its leader, so the command has not run.
    """

    __slots__ = (
        "at", "code", "lapsed", "message", "out_of_memory", "signal", "signalled", "size", "survivors",
        "unreached",
    )  # fmt: skip

    def __init__(
        self, code: int | None, signal: int | None, size: int, *, signalled: bool, at: float,
        lapsed: bool = False, out_of_memory: bool = False, unreached: bool = False,
        survivors: tuple[int, ...] = (), message: str = "",
    ) -> None:  # fmt: skip
        self.code = code
        self.signal = signal
        self.size = size
        self.signalled = signalled
        self.lapsed = lapsed
        self.out_of_memory = out_of_memory
        self.unreached = unreached
        self.at = at
        self.survivors = survivors
        self.message = message

    def line(self) -> bytes:
        """Return the line that records this end in the claim file."""
        message = self.message.replace("\n", " ").replace(SEPARATOR, " ")
        words = (
            "-" if self.code is None else str(self.code),
            "-" if self.signal is None else str(self.signal),
            str(self.size),
            self._kind(),
            f"{self.at:.6f}",
            ",".join(map(str, self.survivors)) or "-",
            message,
        )
        return f"exit {' '.join(words)}\n".encode(errors="replace")

    def _kind(self) -> str:
        kinds = (self.unreached, self.out_of_memory, self.lapsed, self.signalled)
        return str(4 - kinds.index(True)) if any(kinds) else "0"


class Claim:
    """Content of an attempt's claim file: the shim that claimed the attempt, and the command's start and end.

    ``pid``: the shim's pid; None if the attempt was stopped before its start, 0 if the file is damaged.
    """

    __slots__ = ("boot_id", "exit", "failed", "note", "pid", "start_time", "started", "started_up")

    def __init__(self, pid: int | None, start_time: str, boot_id: str) -> None:
        self.pid = pid
        self.start_time = start_time
        self.boot_id = boot_id
        self.started: tuple[int, float] | None = None
        self.started_up: float | None = None  # seconds since the boot at the start of the command
        self.note: str | None = None
        self.exit: Exit | None = None
        self.failed: tuple[float, str] | None = None

    @property
    def damaged(self) -> bool:
        """True if the file does not begin like a claim file. A power loss or a trial may have damaged it."""
        return self.pid == 0


def prefix(keeper: str, job: str) -> str:
    """Return the beginning of the paths of an attempt's files in the keeper's folder ``keeper``."""
    return f"{keeper}/{FOLDER}/{job}."


def old_prefix(directory: str) -> str:
    """Return the beginning of the paths that keepers before version 0.2 used for these files.

    Those keepers stored the files in the trial's folder ``directory``.
    """
    return f"{directory}/{OLD_FOLDER}/"


def path(prefix: str) -> str:
    """Return the path of the claim file of the attempt whose files have this prefix."""
    return f"{prefix}{NAME}"


def take(prefix: str, first_line: bytes) -> int | None:
    """Claim the attempt for this process: create the claim file with this first line.

    Return a descriptor for appending to the file, or None if the attempt was claimed before. Raises OSError.
    """
    own = f"{path(prefix)}.{os.getpid()}"
    fd = os.open(own, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        if os.write(fd, first_line) == len(first_line):
            os.link(own, path(prefix))
            return fd
        raise OSError(28, "the claim was cut short")
    except FileExistsError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    finally:
        os.unlink(own)


def extend(fd: int, lines: bytes, directory: str) -> bool:
    """Append all these lines to the claim file, or none of them. Return False if the disk is full.

    ``directory``: the attempt's folder, which the error message in the keeper's log names.
    """
    try:
        count = os.write(fd, lines)
        if count == len(lines):
            return True
        os.ftruncate(fd, os.fstat(fd).st_size - count)
    except OSError as error:
        complain(f"shim: {directory}: {error}")
    return False


def read(prefix: str) -> Claim | None:
    """Read an attempt's claim file; return None if there is no file.

    Never block, even if a trial has replaced the file by a pipe.
    """
    try:
        fd = os.open(path(prefix), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise  # this process lacks descriptors or memory; the claim file may be sound
        return damaged()
    try:
        return parse(os.read(fd, 65536)) if stat.S_ISREG(os.fstat(fd).st_mode) else damaged()
    finally:
        os.close(fd)


def damaged() -> Claim:
    """Return the ``Claim`` that stands for a claim file that cannot be read."""
    return Claim(0, "", "")


def parse(text: bytes) -> Claim:
    """Return the claim in the text of a claim file; the result of ``damaged`` if the text is not valid."""
    lines = text.decode(errors="replace").split("\n")[:-1]
    try:
        kind, *words = lines[0].split()
        if kind == "aborted":
            return Claim(None, "", words[0])
        if kind != "shim":
            return damaged()
        claim = Claim(int(words[0]), words[1], words[2])
        for line in lines[1:]:
            _add(claim, line)
    except (IndexError, ValueError):
        return damaged()
    return claim


def _add(claim: Claim, line: str) -> None:
    kind, _, rest = line.partition(" ")
    if kind == "started":
        pid, at, *up = rest.split()
        claim.started = (int(pid), float(at))
        claim.started_up = float(up[0]) if up else None
    elif kind == "note":
        claim.note = rest
    elif kind == "exit":
        words = rest.split(" ", 6)
        claim.exit = Exit(
            None if words[0] == "-" else int(words[0]),
            None if words[1] == "-" else int(words[1]),
            int(words[2]),
            signalled=words[3] == "1",
            lapsed=words[3] == "2",
            out_of_memory=words[3] == "3",
            unreached=words[3] == "4",
            at=float(words[4]),
            survivors=() if words[5] == "-" else tuple(map(int, words[5].split(","))),
            message=words[6],
        )
    elif kind == "failed":
        stamp, _, why = rest.partition(" ")
        claim.failed = (float(stamp), why)
