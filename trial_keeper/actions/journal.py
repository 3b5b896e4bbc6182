"""The keeper's journal: an append-only file of records that survives kill -9 and, once flushed, power loss.

A record consists of the length and the CRC-32 of its text (4 bytes each, big endian) and the text itself,
which is JSON. An appended record is in the page cache at once. A separate thread flushes many records at a
time to disk. When the journal is opened, an incomplete record at the end is cut off. A record with a wrong
CRC means damage: the rest of the file, from this record on, is copied to another file, and the damage is
reported.

If the journal has grown much larger than its content needs, the same thread compacts the journal: a new,
complete and durable file replaces the old file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
import zlib

from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Callable, Iterable

    from trial_keeper.core.records import Record

_HEADER = 8
_RETRY_S = 1.0
COMPACT_BYTES = 4 << 20  # bytes; a smaller journal is not compacted
_COMPACT_RATIO = 8


class Found(NamedTuple):
    """Records that the journal had when it was opened.

    ``damage``: a sentence that describes the damage if a part of the journal cannot be read, else None.
    """

    records: list[Record]
    damage: str | None


def frame(record: Record) -> bytes:
    """Return the bytes that represent this record in the journal: length, CRC-32 and JSON text."""
    text = json.dumps(record, separators=(",", ":")).encode("ascii")
    return len(text).to_bytes(4, "big") + zlib.crc32(text).to_bytes(4, "big") + text


def load(path: str) -> Found:
    """Read the journal and cut an incomplete record off its end. A missing file is an empty journal.

    If a record is damaged, the rest of the file is copied to another file. The damaged journal itself stays
    until it is rewritten. If this keeper is killed before that, the next keeper finds the damage again.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return Found([], None)
    records, at = parse(content)
    rest = content[at:]
    damage = None
    if damaged(rest):
        damage = (
            f"the keeper's journal is damaged: {len(rest)} bytes after record {len(records)} cannot be read "
            f"and {_set_aside(f'{path}.damaged-{at}', rest)}"
        )
    elif rest:
        os.truncate(path, at)
    return Found(records, damage)


def parse(content: bytes) -> tuple[list[Record], int]:
    """Return the intact records at the beginning of ``content``, and the position after the last of them."""
    records: list[Record] = []
    at = 0
    while (end := _end(content, at)) is not None:
        records.append(json.loads(content[at + _HEADER : end]))
        at = end
    return records, at


def size(content: bytes) -> int:
    """Return the length in bytes of the first record in ``content``; 0 if it is incomplete or damaged."""
    return _end(content, 0) or 0


def _end(content: bytes, at: int) -> int | None:
    """Return the position after the record at byte ``at``; None if the record is incomplete or damaged."""
    text = at + _HEADER
    size = int.from_bytes(content[at : at + 4], "big")
    end = text + size
    if size == 0 or end > len(content):
        return None
    sound = zlib.crc32(content[text:end]).to_bytes(4, "big") == content[at + 4 : text]
    return end if sound else None


def _set_aside(path: str, rest: bytes) -> str:
    try:
        fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(rest)
    except OSError as error:
        return f"could not be copied to another file ({error.strerror})"
    return f"were copied to {os.path.basename(path)}"


def damaged(rest: bytes) -> bool:
    """Return whether ``rest``, the unreadable end of a journal, is damaged and not only an unfinished write.

    An unfinished write leaves only the beginning of a record, or zeros.
    """
    rest = rest.rstrip(b"\0")  # complete records never end in a zero byte
    if len(rest) >= _HEADER and _HEADER + int.from_bytes(rest[:4], "big") <= len(rest):
        return True
    return any(_end(rest, at) is not None for at in range(1, len(rest)))


def rewrite(path: str, records: Iterable[Record]) -> None:
    """Replace the journal ``path`` durably by these records.

    If this raises OSError before the rename, the old file stays.
    """
    replace(path, b"".join(map(frame, records)))


def replace(path: str, content: bytes) -> None:
    """Replace the file ``path`` durably. If this raises OSError before the rename, the old file stays."""
    own = path + ".new"
    fd = os.open(own, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        _write(fd, content)
    finally:
        os.close(fd)
    os.rename(own, path)
    _sync_names(path)


def _write(fd: int, content: bytes) -> None:
    """Write all bytes to the open file ``fd`` and flush them to disk."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


def _sync_names(path: str) -> None:
    """Flush the directory of ``path`` to disk, so that a rename to this path survives power loss."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class Journal:
    """The open journal, with a thread that flushes appended records to disk.

    The thread calls ``flushed(number)`` when all records up to this number are on disk, and
    ``failed(sentence)`` after an error. If the file has more than ``limit`` bytes, the thread may compact it:
    ``fold`` takes all records and returns the shortest list of records with the same meaning.
    """

    def __init__(
        self,
        path: str,
        *,
        flushed: Callable[[int], None],
        failed: Callable[[str], None],
        fold: Callable[[list[Record]], list[Record]],
        limit: int = COMPACT_BYTES,
    ) -> None:
        self._path = path
        self._fd = self._open()
        self._fold = fold
        self._limit = limit
        self._compact_at = max(limit, _COMPACT_RATIO * os.fstat(self._fd).st_size)
        self._written = 0
        self._flushed = flushed
        self._failed = failed
        self._lock = threading.Lock()
        self._wanted = threading.Semaphore(0)
        threading.Thread(target=self._flush, name="journal", daemon=True).start()

    def append(self, number: int, record: Record, *, flush: bool) -> None:
        """Write one record to the end of the journal. If this raises OSError, nothing was written.

        With ``flush``, the record is soon flushed to disk, and then ``flushed`` is called. Without ``flush``,
        the record waits for the next flush.
        """
        content = frame(record)
        with self._lock:
            size = os.fstat(self._fd).st_size
            try:
                if os.write(self._fd, content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                os.ftruncate(self._fd, size)
                raise
            self._written = number
        if flush:
            self._wanted.release()

    def _open(self) -> int:
        return os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def _flush(self) -> None:
        while True:
            self._wanted.acquire()
            while self._wanted.acquire(blocking=False):
                continue  # one flush serves all records that were appended in the meantime
            number = self._written
            try:
                os.fdatasync(self._fd)
                self._compact()
            except OSError as error:
                number = self._renew(error)
            self._flushed(number)

    def _compact(self) -> None:
        """Replace a large journal by a shorter one with the same meaning, if that saves enough space.

        If this fails before the rename, the old complete file stays. Raises OSError if the new file is in
        place but may not survive power loss.
        """
        with self._lock:
            size = os.fstat(self._fd).st_size
        if size <= self._compact_at:
            return
        # a failed compaction is retried only when the journal has doubled in size
        self._compact_at = 2 * size
        own = f"{self._path}.new"
        try:
            with open(self._path, "rb") as file:
                if not os.path.samestat(os.fstat(file.fileno()), os.fstat(self._fd)):
                    return  # the directory was replaced, so the file belongs to another keeper
                records, end = parse(file.read(size))
                # the file was damaged on the disk: the next start copies the damaged part aside and reports
                # it
                if end != size:
                    return
                kept = b"".join(map(frame, self._fold(records)))
                self._compact_at = max(self._limit, _COMPACT_RATIO * len(kept))
                if size <= self._compact_at:
                    return
                fd = os.open(own, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
                try:
                    _write(fd, kept)
                    with self._lock:
                        file.seek(size)
                        _write(fd, file.read())  # records that were appended during the compaction
                        os.rename(own, self._path)
                        self._fd, fd = fd, self._fd
                finally:
                    os.close(fd)
        except OSError:
            self._compact_at = 2 * size
            with contextlib.suppress(OSError):
                os.unlink(own)
            return
        _sync_names(self._path)

    def _renew(self, error: OSError) -> int:
        """Replace the journal by a durable copy, and retry until this succeeds.

        This is necessary after the flush error ``error``, because the kernel may have dropped pages of the
        file. Return the number of the last record in the copy.
        """
        while True:
            self._failed(f"the keeper's journal could not be flushed: {error.strerror}")
            try:
                with self._lock:
                    with open(self._path, "rb") as file:
                        replace(self._path, file.read())
                    os.close(self._fd)
                    self._fd = self._open()
                    return self._written
            except OSError as again:
                error = again
            time.sleep(_RETRY_S)
