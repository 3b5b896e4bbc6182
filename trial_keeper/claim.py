"""The file ``.nnimgr/claim`` of an attempt: who may start it, what came of it. Lean: the shim imports it.

It is created once, by ``link``, so exactly one process decides about the attempt; afterwards only that one
appends to it. A line without its end does not count::

    shim <pid> <start time> <boot id>          or: aborted <boot id>
    started <pid of the command> <unix seconds>
    exit <code or -> <signal or -> <bytes in .nni/metrics> <1: a stop has ended it, 2: its lease, or 0> \
<unix seconds> <pids that could not be killed, with commas, or -> <one sentence, or nothing>
or  failed <unix seconds> <why the command could not be started>
"""

from __future__ import annotations

import os

DIRECTORY = ".nnimgr"
NAME = "claim"
STOP = "stop"  # beside it: the grace in seconds, written before the shim is signalled
METRICS = ".nni/metrics"


class Exit:
    """How the command ended. ``signalled`` because of a stop, or ``lapsed``: its lease was over."""

    __slots__ = ("at", "code", "lapsed", "message", "signal", "signalled", "size", "survivors")

    def __init__(
        self, code: int | None, signal: int | None, size: int, *, signalled: bool, at: float,
        lapsed: bool = False, survivors: tuple[int, ...] = (), message: str = "",
    ) -> None:  # fmt: skip
        self.code = code
        self.signal = signal
        self.size = size
        self.signalled = signalled
        self.lapsed = lapsed
        self.at = at
        self.survivors = survivors
        self.message = message

    def line(self) -> bytes:
        """The line of the claim file that says so."""
        words = (
            "-" if self.code is None else str(self.code),
            "-" if self.signal is None else str(self.signal),
            str(self.size),
            "2" if self.lapsed else "1" if self.signalled else "0",
            f"{self.at:.6f}",
            ",".join(map(str, self.survivors)) or "-",
            self.message.replace("\n", " "),
        )
        return f"exit {' '.join(words)}\n".encode(errors="replace")


class Claim:
    """What the claim file says. ``pid`` is None when a stop came first."""

    __slots__ = ("boot_id", "exit", "failed", "pid", "start_time", "started")

    def __init__(self, pid: int | None, start_time: str, boot_id: str) -> None:
        self.pid = pid
        self.start_time = start_time
        self.boot_id = boot_id
        self.started: tuple[int, float] | None = None
        self.exit: Exit | None = None
        self.failed: tuple[float, str] | None = None


def path(directory: str) -> str:
    """The claim file of the attempt in ``directory``."""
    return f"{directory}/{DIRECTORY}/{NAME}"


def take(directory: str, first_line: bytes) -> int | None:
    """Claim the attempt. Returns a descriptor to append to, or None: somebody else has. Raises OSError."""
    own = f"{path(directory)}.{os.getpid()}"
    fd = os.open(own, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        if os.write(fd, first_line) == len(first_line):
            os.link(own, path(directory))
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


def read(directory: str) -> Claim | None:
    """The claim of the attempt in ``directory``; None: not claimed."""
    try:
        fd = os.open(path(directory), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return parse(os.read(fd, 65536))
    finally:
        os.close(fd)


def parse(text: bytes) -> Claim:
    """Read the lines of a claim file. What power loss has made of one belongs to no boot that is known."""
    lines = text.decode(errors="replace").split("\n")[:-1]
    try:
        kind, *words = lines[0].split()
        if kind == "aborted":
            return Claim(None, "", words[0])
        claim = Claim(int(words[0]), words[1], words[2])
        for line in lines[1:]:
            _add(claim, line)
    except (IndexError, ValueError):
        return Claim(0, "", "")
    return claim


def _add(claim: Claim, line: str) -> None:
    kind, _, rest = line.partition(" ")
    if kind == "started":
        pid, at = rest.split()
        claim.started = (int(pid), float(at))
    elif kind == "exit":
        words = rest.split(" ", 6)
        claim.exit = Exit(
            None if words[0] == "-" else int(words[0]),
            None if words[1] == "-" else int(words[1]),
            int(words[2]),
            signalled=words[3] == "1",
            lapsed=words[3] == "2",
            at=float(words[4]),
            survivors=() if words[5] == "-" else tuple(map(int, words[5].split(","))),
            message=words[6],
        )
    elif kind == "failed":
        stamp, _, why = rest.partition(" ")
        claim.failed = (float(stamp), why)
