"""Unpacks the trials' code once on this machine, copies it for each attempt, and removes the copies.

A list of the unpacked files is stored beside them. It has one line of JSON per file, folder or link: ``[name,
kind, mode, size, check]``. ``check`` is the CRC-32 of a file or the target of a link. A folder comes before
its content. All files of a copy get the same modification time, so that a file which the trial has changed
can be recognised by its time.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import sys
import zlib

from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.machine.disk import remove, write_all

if TYPE_CHECKING:
    from typing import Any

FOLDER, FILE, LINK = "d", "f", "l"
# modification time of every file in a copy: whole seconds, which any file system can store
UNTOUCHED_S = 981_173_106
_CLONE = 0x40049409  # FICLONE
_PIECE = 1 << 20
_CANNOT_CLONE = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM)


class Entry(NamedTuple):
    """File, folder or link of the trials' code. ``check``: CRC-32 of a file, or target of a link."""

    name: str
    kind: str
    mode: int
    size: int
    check: int | str


class BadArchive(ValueError):
    """Error: the code's archive is damaged or has an entry that the server never packs.

    The message is one sentence.
    """


def unpack(archive: str, directory: str) -> list[Entry]:
    """Unpack the code's archive into the new folder ``directory``, and return the list of its entries.

    The folders and files get modes that allow the keeper to read and remove everything. The entries contain
    the modes from the archive. Raises OSError, BadArchive.
    """
    import gzip
    import tarfile

    os.mkdir(directory, 0o700)
    entries: list[Entry] = []
    folders = {""}
    try:
        with gzip.open(archive, "rb") as packed, tarfile.open(
            fileobj=packed, mode="r|", encoding="utf-8", errors="surrogateescape"
        ) as tar:
            for member in tar:
                parent, _, last = member.name.rpartition("/")
                if parent not in folders or last in ("", ".", "..") or "\0" in last:
                    raise BadArchive(f"the trial code holds the invalid name {member.name!r}")
                path = f"{directory}/{member.name}"
                if member.isdir():
                    os.mkdir(path, 0o700)
                    folders.add(member.name)
                    entries.append(Entry(member.name, FOLDER, member.mode, 0, 0))
                elif member.issym():
                    os.symlink(member.linkname, path)
                    entries.append(Entry(member.name, LINK, 0o777, 0, member.linkname))
                elif member.isfile():
                    content = tar.extractfile(member)
                    assert content is not None
                    check = _write(content, path, member.size)
                    entries.append(Entry(member.name, FILE, member.mode, member.size, check))
                else:
                    raise BadArchive(f"the trial code holds {member.name!r}, which is not a file")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BadArchive(f"the trial code cannot be unpacked: {error}") from error
    return entries


def _write(content: Any, path: str, size: int) -> int:
    check = 0
    with open(path, "xb", buffering=0) as file:
        while size > 0:
            piece = content.read(min(size, _PIECE))
            if not piece:
                raise BadArchive("the trial code ends in the middle of a file")
            check = zlib.crc32(piece, check)
            write_all(file.fileno(), piece)
            size -= len(piece)
    return check


def write_list(path: str, entries: list[Entry]) -> None:
    """Write the list of entries to the file ``path``, completely or not at all. Raises OSError."""
    own = f"{path}.{os.getpid()}"
    with open(own, "w", encoding="ascii") as file:
        for entry in entries:
            file.write(json.dumps(entry) + "\n")
    os.rename(own, path)


def read_list(path: str) -> list[Entry]:
    """Return the list of entries that the file ``path`` contains. Raises OSError, ValueError."""
    with open(path, encoding="ascii") as file:
        return [Entry(*json.loads(line)) for line in file]


def is_whole(directory: str, entries: list[Entry]) -> bool:
    """Return whether the unpacked code in ``directory`` still equals its list of entries.

    A power loss may have destroyed parts of the code.
    """
    try:
        for name, kind, _mode, size, check in entries:
            path = f"{directory}/{name}"
            if kind == FILE:
                if os.path.getsize(path) != size or _crc(path) != check:
                    return False
            elif kind == LINK:
                if os.readlink(path) != check:
                    return False
            elif not os.path.isdir(path):
                return False
    except OSError:
        return False
    return True


def _crc(path: str) -> int:
    check = 0
    with open(path, "rb", buffering=0) as file:
        while True:
            piece = file.read(_PIECE)
            if not piece:
                return check
            check = zlib.crc32(piece, check)


def copy(tree: str, entries: list[Entry], target: str) -> None:
    """Copy the unpacked code in ``tree`` to the folder ``target``, completely or not at all. Raises OSError.

    Do nothing if ``target`` exists. Where the file system can clone files, a copy needs no additional space.
    """
    if os.path.isdir(target):
        return
    fresh = f"{target}.new"
    remove(fresh)
    try:
        _fill(fresh, tree, entries)
        os.rename(fresh, target)
    except OSError:
        with contextlib.suppress(OSError):
            remove(fresh)  # frees the space on a full disk
        raise


def _fill(fresh: str, tree: str, entries: list[Entry]) -> None:
    os.makedirs(fresh)
    clones = True
    for name, kind, mode, _size, check in entries:
        path = f"{fresh}/{name}"
        if kind == FOLDER:
            os.mkdir(path, 0o700)
        elif kind == LINK:
            os.symlink(str(check), path)
            with contextlib.suppress(NotImplementedError):
                os.utime(path, (UNTOUCHED_S, UNTOUCHED_S), follow_symlinks=False)
        else:
            clones = _copy_file(f"{tree}/{name}", path, mode, clones=clones)
    for name, kind, mode, _size, _check in reversed(entries):
        if kind == FOLDER:
            os.chmod(f"{fresh}/{name}", mode)


def _copy_file(source: str, path: str, mode: int, *, clones: bool) -> bool:
    """Copy one file; return whether cloning should be tried for the next file."""
    read = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        written = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if clones:
                try:
                    fcntl.ioctl(written, _CLONE, read)
                except OSError as error:
                    if error.errno not in _CANNOT_CLONE:
                        raise
                    clones = False
            if not clones:
                while True:
                    piece = os.read(read, _PIECE)
                    if not piece:
                        break
                    write_all(written, piece)
            os.fchmod(written, mode)
            os.utime(written, (UNTOUCHED_S, UNTOUCHED_S))
        finally:
            os.close(written)
    finally:
        os.close(read)
    return clones


def stamp(directory: str) -> int:
    """Return the file system's current time in ns. Later changes in ``directory`` get a later time."""
    os.utime(directory)
    return os.stat(directory).st_ctime_ns


def is_untouched(directory: str, entries: list[Entry], stamped: int) -> bool:
    """Return whether a copy is unchanged since ``stamped`` and has no additional files."""
    children = {"": 0}
    try:
        for entry in entries:
            found = os.lstat(f"{directory}/{entry.name}")
            if entry.kind == FOLDER:
                if not stat.S_ISDIR(found.st_mode) or stat.S_IMODE(found.st_mode) != entry.mode:
                    return False
                children[entry.name] = 0
            elif found.st_ctime_ns > stamped or int(found.st_mtime) != UNTOUCHED_S:
                return False
            children[entry.name.rpartition("/")[0]] += 1
        return all(len(os.listdir(f"{directory}/{name}")) == number for name, number in children.items())
    except OSError:
        return False


def take_away(attempt: str, name: str, entries: list[Entry], *, stamped: int | None = None) -> None:
    """Remove from a code copy all files that the trial has not changed. Raises OSError.

    The copy is the folder ``name`` in the folder ``attempt``. Files that the trial has written or changed
    stay, with the folders that contain them. Nothing outside the copy is removed. ``stamped``: time in ns
    when the copy was made, if known.
    """
    latest = sys.maxsize if stamped is None else stamped
    root: dict[str, Any] = {}
    nodes = {"": root}
    for entry in entries:
        parent, _, last = entry.name.rpartition("/")
        children: dict[str, Any] = {}
        nodes[parent][last] = (entry, children)
        if entry.kind == FOLDER:
            nodes[entry.name] = children
    try:
        above = os.open(attempt, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _take_folder(above, name, 0o700, root, latest)
    finally:
        os.close(above)


def _take_folder(above: int, name: str, mode: int, children: dict[str, Any], latest: int) -> None:
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError:  # the trial has replaced the copy by another kind of file
        return
    try:
        locked = mode & 0o300 != 0o300
        if locked:
            os.fchmod(folder, mode | 0o700)
        for last, (entry, below) in children.items():
            if entry.kind == FOLDER:
                _take_folder(folder, last, entry.mode, below, latest)
            elif _is_untouched(folder, last, entry, latest):
                os.unlink(last, dir_fd=folder)
        try:
            os.rmdir(name, dir_fd=above)
        except OSError:
            if locked:
                os.fchmod(folder, mode)
    finally:
        os.close(folder)


def _is_untouched(folder: int, name: str, entry: Entry, latest: int) -> bool:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if int(found.st_mtime) != UNTOUCHED_S or found.st_ctime_ns > latest:
            return False
        if entry.kind == LINK:
            return stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=folder) == entry.check
    except OSError:
        return False
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size == entry.size
        and stat.S_IMODE(found.st_mode) == entry.mode
    )
