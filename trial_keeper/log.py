"""Log file of limited size, which keeps the beginning and the latest end of a stream.

A line between these two parts states how many bytes are left out.
"""

from __future__ import annotations

import os

STARTS = "starts, epoch"  # part of the first line that a keeper writes when it can work
HEAD = 16 << 20
LEAST = 4096  # smallest size in bytes that has room for the line about lost bytes
_CHUNK = 1 << 20
_RULES = b"=-_*#~+. \t"  # a line of these alone says nothing
_TRACEBACK = b"Traceback (most recent call last):"
_GROUP = b"  + Exception Group " + _TRACEBACK
_OF_OTHERS = (b"[", b"(")  # beginnings of lines whose indentation is unknown: of torchrun and of Ray
_PARAMETERS = bytes(range(0x20, 0x40))  # between ESC [ and the letter that ends the sequence
_TORCHRUN = (  # in the first line of what torchrun writes when a worker has failed; the second: before 2.3
    b" torch/distributed/elastic/multiprocessing/api.py:",
    b":torch.distributed.elastic.multiprocessing.api:",
)


def complain(sentence: str) -> None:
    """Write a sentence to standard error, which is the keeper's log. Never raises, even on a full disk."""
    try:
        os.write(2, f"{sentence}\n".encode(errors="backslashreplace"))
    except OSError:
        return


class CappedLog:
    """Log file ``path`` of at most ``cap`` bytes, which keeps the beginning and the end of a longer stream.

    When the file is full, the older half of its end part is deleted, and the rest moves up. The file is
    readable text at all times. ``dropped`` counts the bytes that could not be written.
    """

    __slots__ = ("_cap", "_fd", "_head", "_size", "_skipped", "dropped")

    def __init__(self, path: str, cap: int) -> None:
        self.dropped = 0
        self._cap = max(LEAST, cap)
        self._head = min(HEAD, self._cap // 2)
        self._size = 0
        self._skipped = 0
        try:
            self._fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o644)
        except OSError:
            self._fd = -1

    def write(self, chunk: bytes) -> None:
        """Append ``chunk`` to the log; never raises."""
        if self._fd < 0:
            self.dropped += len(chunk)
            return
        try:
            while chunk:
                if self._size >= self._cap:
                    self._move_up()
                chunk = chunk[self._put(chunk[: self._cap - self._size], self._size) :]
        except OSError:
            self.dropped += len(chunk)

    def read_from(self, fd: int) -> bool | None:
        """Append what the pipe ``fd``, which does not block, holds now. Return False if that is nothing.

        Return None if the other end of the pipe is closed.
        """
        try:
            chunk = os.read(fd, 65536)
        except BlockingIOError:
            return False
        if chunk:
            self.write(chunk)
            return True
        return None

    def last_line(self, limit: int) -> bytes:
        """Return the last line within the last ``limit`` bytes that says something; never raises.

        After a Python traceback, the first line of its exception stands before the last line, unless it has
        the same: the message may have many lines, or the program may have caught the exception and ended with
        a message of its own. The exceptions in a group, and what torchrun writes about the workers after
        their own output, do not count.
        """
        try:
            text = os.pread(self._fd, limit, max(0, self._size - limit))
        except OSError:
            return b""
        lines = _ungrouped([line.rstrip() for line in _uncoloured(text).split(b"\n")])
        report = next((at for at, line in enumerate(lines) if any(mark in line for mark in _TORCHRUN)), None)
        raised, last = _raised(lines[:report]), _last(lines[:report]) or _last(lines)
        if not raised or raised in last:
            return last
        return raised if last in raised else b"%s ... %s" % (raised, last)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _put(self, chunk: bytes, at: int) -> int:
        count = os.pwrite(self._fd, chunk, at)
        self._size = max(self._size, at + count)
        return count

    def _move_up(self) -> None:
        note_at = self._head
        tail_at = note_at + (len(self._note()) if self._skipped else 0)
        keep = (self._size - tail_at) // 2
        source = self._size - keep
        self._skipped += source - tail_at
        target = note_at + os.pwrite(self._fd, self._note(), note_at)
        while source < self._size:
            chunk = os.pread(self._fd, min(_CHUNK, self._size - source), source)
            os.pwrite(self._fd, chunk, target)
            source += len(chunk)
            target += len(chunk)
        os.ftruncate(self._fd, target)
        self._size = target

    def _note(self) -> bytes:
        return b"\n[... %020d bytes are left out here: the log may hold %d ...]\n" % (
            self._skipped,
            self._cap,
        )


def _uncoloured(text: bytes) -> bytes:
    """Return the text without the sequences that a terminal takes for colours, such as ESC [ 31 m."""
    first, *rest = text.split(b"\x1b[")
    return first + b"".join(part.lstrip(_PARAMETERS)[1:] for part in rest)


def _ungrouped(lines: list[bytes]) -> list[bytes]:
    """Return the lines with each traceback of a group of exceptions as that of a single exception.

    The exceptions in the group are left out.
    """
    found: list[bytes] = []
    in_group = False
    for line in lines:
        if line.endswith(_GROUP) and not line.startswith(_OF_OTHERS):
            in_group = True
            found.append(_TRACEBACK)
        elif in_group and line.startswith(b"  |"):
            found.append(line[4:])
        elif not (in_group and line.startswith(b"  ") and line.lstrip()[:1] in (b"|", b"+")):
            in_group = False
            found.append(line)
    return found


def _last(lines: list[bytes]) -> bytes:
    """Return the last line that is more than a rule, or b""."""
    return next((line.strip() for line in reversed(lines) if line.strip(_RULES)), b"")


def _raised(lines: list[bytes]) -> bytes:
    """Return the first line of the exception of the last Python traceback, or b""."""
    for at in reversed(range(len(lines))):
        if lines[at].endswith(_TRACEBACK) and not lines[at].startswith((b" ", *_OF_OTHERS)):
            return said_by_exception(lines[at + 1 :])
    return b""


def said_by_exception(lines: list[bytes]) -> bytes:
    """Return an exception's type and the first line of its message, or b"".

    ``lines``: what Python prints of the exception. Indented lines before it belong to the traceback, or show
    the code of a syntax error. If the first line ends with a colon, the next line is appended.
    """
    rest = iter(lines)
    first = next((line for line in rest if line and not line[:1].isspace()), b"")
    following = next((line.strip() for line in rest if line.strip()), b"")
    return b"%s %s" % (first, following) if following and first.endswith(b":") else first
