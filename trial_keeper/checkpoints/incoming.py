"""Folder that receives the files of a checkpoint. An interrupted transfer continues where it was."""

from __future__ import annotations

import hashlib
import os

from trial_keeper.checkpoints import contents
from trial_keeper.lean import TYPE_CHECKING
from trial_keeper.machine.disk import flush, remove, write_all

if TYPE_CHECKING:
    from typing import Any, Sequence

    from trial_keeper.checkpoints.contents import Entry

LIST, FILES = "list", "files"


class Damaged(Exception):
    """Error: the content that has arrived is incomplete, or has another hash than the sender's."""


class Incoming:
    """Folder ``<folder>/files`` into which the content of a checkpoint is written.

    ``offset``: number of bytes that the folder has. A folder with the same list of files is continued.
    Any other folder at this path is removed first. Raises OSError.
    """

    def __init__(self, folder: str, entries: Sequence[Entry]) -> None:
        self.folder = folder
        self.entries = entries
        self.offset = 0
        self.size = contents.size_of(entries)
        self.hashes: list[str] = []
        self._waiting = iter(entries)
        self._fd: int | None = None
        self._left = 0  # bytes that the open file still lacks
        self._hash: Any = None
        if read_list(folder) == entries:
            self._resume()
        else:
            remove(folder)
            os.makedirs(f"{folder}/{FILES}", 0o700)
            with open(f"{folder}/{LIST}.new", "wb") as file:
                file.write(contents.encode_list(entries))
            os.rename(f"{folder}/{LIST}.new", f"{folder}/{LIST}")

    def _resume(self) -> None:
        """Read the files that the folder has, for their hashes, up to the first incomplete one."""
        while self._next():
            assert self._fd is not None
            while self._left > 0:
                piece = os.read(self._fd, min(contents.PIECE, self._left))
                if not piece:
                    return
                self._count(piece)

    def write(self, piece: bytes) -> None:
        """Add the next bytes of the content. Raises OSError, and Damaged if there are too many."""
        rest = memoryview(piece)
        while rest:
            if self._fd is None and not self._next():
                raise Damaged("more bytes have arrived than the checkpoint has")
            assert self._fd is not None
            part = rest[: self._left]
            write_all(self._fd, part)
            self._count(part)
            rest = rest[len(part) :]

    def finish(self, hashes: Sequence[str], *, durable: bool) -> bytes:
        """Check the files against the sender's hashes, and return the manifest.

        ``durable``: flush all files to disk. Raises OSError, Damaged.
        """
        if self._fd is not None or self._next():
            raise Damaged(f"only {self.offset} of {self.size} bytes have arrived")
        names = [entry.name for entry in self.entries if not entry.is_folder]
        for name, mine, theirs in zip(names, self.hashes, hashes):
            if mine != theirs:
                raise Damaged(f"the hash of {name} is wrong")
        if len(hashes) != len(names):
            raise Damaged("the sender has not named the hash of every file")
        os.unlink(f"{self.folder}/{LIST}")
        _seal(f"{self.folder}/{FILES}", durable=durable)
        return contents.manifest_of(self.entries, self.hashes)

    def close(self) -> None:
        """Close the open file. The folder can be continued later."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _next(self) -> bool:
        """Open the next file that has content. Create files and folders without content on the way.

        Return False if there is no further file.
        """
        for entry in self._waiting:
            path = f"{self.folder}/{FILES}/{entry.name}"
            if entry.is_folder:
                os.makedirs(path, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            self._left, self._hash = entry.size, hashlib.sha256()
            if entry.size:
                return True
            self._end()
        return False

    def _count(self, piece: bytes | memoryview) -> None:
        self._hash.update(piece)
        self._left -= len(piece)
        self.offset += len(piece)
        if not self._left:
            self._end()

    def _end(self) -> None:
        assert self._fd is not None
        self.hashes.append(self._hash.hexdigest())
        os.ftruncate(self._fd, os.lseek(self._fd, 0, os.SEEK_CUR))
        self.close()


def read_list(folder: str) -> list[Entry] | None:
    """Return the list of files of a folder that was begun; None if there is none, or it is unreadable."""
    try:
        with open(f"{folder}/{LIST}", "rb") as file:
            return contents.decode_list(file.read())
    except (OSError, ValueError):
        return None


def _seal(folder: str, *, durable: bool) -> None:
    """Make all files in the folder read-only and, if required, durable. Raises OSError."""
    for at, _, names in os.walk(folder, topdown=False):
        for name in names:
            os.chmod(f"{at}/{name}", 0o444)
            if durable:
                flush(f"{at}/{name}")
        if durable:
            flush(at)
