"""Content of a checkpoint as one stream: the contents of its files, in the order of a list.

The list has the files and the empty folders, sorted by name. Paths are relative to the checkpoint's folder,
and the name of a folder ends with a slash.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat

from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.machine.untrusted_files import PlainFile, check_path, open_folder

if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, Sequence

MANIFEST = "manifest.json"  # name of the file with a copy's manifest, beside the folder of its files
MOST_ENTRIES = 100_000
PIECE = 1 << 18


class Entry(NamedTuple):
    """File of a checkpoint, or an empty folder if the name ends with a slash. ``size``: bytes."""

    name: str
    size: int

    @property
    def is_folder(self) -> bool:
        """Return whether the entry is an empty folder."""
        return self.name.endswith("/")


class Outgoing:
    """Reader of a checkpoint's files, which the trial may still change.

    ``parts``: path of the checkpoint's folder below ``root``. ``hashes`` has the SHA-256 of each file that
    was read to its end. The constructor raises FileNotFoundError, OSError, and ValueError if the checkpoint
    has something that cannot be transferred, such as a link.
    """

    def __init__(self, root: str, parts: Sequence[str]) -> None:
        self._root = root
        self._parts = parts
        self.entries = _entries(root, parts)
        self.hashes: list[str] = []

    def content(self, offset: int) -> Iterator[bytes]:
        """Yield the content from byte ``offset`` on. Raises OSError.

        The bytes before the offset are read for the hashes. Empty pieces are yielded meanwhile.
        """
        import hashlib  # most keepers never need it

        for entry in self.entries:
            if entry.is_folder:
                continue
            found = hashlib.sha256()
            with contextlib.closing(PlainFile(self._root, self._parts, entry.name)) as file:
                if file.size != entry.size:
                    raise OSError(f"{entry.name} changes while it is read")
                left = entry.size
                while left > 0:
                    piece = file.read(min(PIECE, left))
                    if not piece:
                        raise OSError(f"{entry.name} has become shorter while it was read")
                    found.update(piece)
                    left -= len(piece)
                    yield piece[offset:]
                    offset = max(0, offset - len(piece))
            self.hashes.append(found.hexdigest())


def _entries(root: str, parts: Sequence[str]) -> list[Entry]:
    found: list[Entry] = []
    top = open_folder(root, parts)
    try:
        for at, folders, names, folder in os.fwalk(".", dir_fd=top):
            prefix = "" if at == "." else at[2:] + "/"
            if prefix and not folders and not names:
                found.append(Entry(prefix, 0))
            for name in (*folders, *names):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    found.append(Entry(prefix + name, status.st_size))
                elif not stat.S_ISDIR(status.st_mode):
                    raise ValueError(f"{prefix}{name} is neither a file nor a folder")
            if len(found) > MOST_ENTRIES:
                raise ValueError(f"there are more than {MOST_ENTRIES:,} files")
    finally:
        os.close(top)
    return sorted(found)


def size_of(entries: Iterable[Entry]) -> int:
    """Return the total bytes of all files."""
    return sum(entry.size for entry in entries)


def encode_list(entries: Iterable[Entry]) -> bytes:
    """Return the list as one line of JSON."""
    return json.dumps(list(entries)).encode("ascii") + b"\n"


def decode_list(line: bytes) -> list[Entry]:
    """Parse a list, and check all names. Raises ValueError."""
    return checked(json.loads(line))


def checked(items: Any) -> list[Entry]:
    """Return the list of entries, each given as a name and a size. Raises ValueError for a bad list."""
    if not isinstance(items, list) or len(items) > MOST_ENTRIES:
        raise ValueError(f"the list of files is invalid or has more than {MOST_ENTRIES:,} files")
    entries = []
    for item in items:
        if not isinstance(item, list) or len(item) != 2:
            raise ValueError("the list of files is invalid")
        name, size = item
        if type(name) is not str or type(size) is not int or size < 0 or (name[-1:] == "/" and size):
            raise ValueError(f"{name!r} is not an entry of a list of files")
        check_path(name[:-1] if name.endswith("/") else name)
        entries.append(Entry(name, size))
    if any(first.name >= second.name for first, second in zip(entries, entries[1:])):
        raise ValueError("the list of files is not sorted")
    return entries


def manifest_of(entries: Iterable[Entry], hashes: Sequence[str]) -> bytes:
    """Return the manifest of a checkpoint: JSON with the name, size and hash of each file.

    ``hashes``: SHA-256 of each file, in order. Empty folders have no hash.
    """
    of_files = iter(hashes)
    items = [list(entry) if entry.is_folder else [*entry, next(of_files)] for entry in entries]
    return json.dumps({"files": items}, separators=(",", ":")).encode("ascii")


def read_manifest(text: bytes) -> tuple[list[Entry], list[str]]:
    """Parse a manifest: return its entries, and the hashes of its files. Raises ValueError."""
    try:
        items = json.loads(text)["files"]
        entries = checked([item[:2] for item in items])
        hashes = [item[2] for item, entry in zip(items, entries) if not entry.is_folder]
    except (TypeError, KeyError, IndexError) as error:
        raise ValueError(f"the manifest of the checkpoint is invalid: {error!r}") from error
    return entries, hashes


def check_whole(folder: str, size: int) -> None:
    """Raise FileNotFoundError if the files of the checkpoint in the folder have other bytes in all.

    Less of them means that a disk has lost a part of them, or that somebody has changed them.
    """
    found = sum(os.lstat(f"{at}/{name}").st_size for at, _, names in os.walk(folder) for name in names)
    if found != size:
        raise FileNotFoundError(f"its files have {found:,} bytes in place of {size:,}")


def check_sizes(folder: str, entries: Iterable[Entry]) -> None:
    """Raise FileNotFoundError if a file in the folder is missing or has another size than in the list."""
    for name, size in entries:
        status = os.stat(f"{folder}/{name}", follow_symlinks=False)
        if not name.endswith("/") and (not stat.S_ISREG(status.st_mode) or status.st_size != size):
            raise FileNotFoundError(f"{name} has {status.st_size} bytes in place of {size}")
