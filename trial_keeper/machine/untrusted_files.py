"""Reads files of a trial safely: the trial may have replaced any file or folder, for example by a link."""

from __future__ import annotations

import os
import re
import stat

from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Sequence

MOST_FILES = 10_000  # entries in one listing
_CHUNK = 1 << 16
_PRIVATE = ".nnimgr"  # folder with the claim of keepers before version 0.2
_OWN = ".nni"  # folder that every attempt's folder contains
_BYTE = re.compile(r"\\x([89a-f][0-9a-f])")  # a byte that is not UTF-8, as ``shown_name`` writes it
_ATTEMPT = re.compile("attempt-[0-9]+")  # folder of a later attempt, inside the first attempt's folder


def check_path(path: str) -> list[str]:
    """Split a relative path into its parts. Raise ValueError if it could lead out of its folder."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"{path!r} is not the name of a file")
    return parts


def shown_name(name: str) -> str:
    """Return the name of a file as valid text: bytes that are not UTF-8 are shown as in ``\\xfe``."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def raw_name(shown: str) -> str:
    """Return the name that ``shown_name`` shows so, if its bytes are not UTF-8."""
    return _BYTE.sub(lambda match: chr(0xDC00 + int(match.group(1), 16)), shown)


class PlainFile:
    """Open plain file, read from its beginning. No link below ``root`` is followed."""

    def __init__(self, root: str, parts: Sequence[str], path: str) -> None:
        """Open the file ``path`` in the folder to which ``parts`` lead from the folder ``root``.

        Raises ValueError for a path that is not valid, and FileNotFoundError if there is no plain file.
        """
        *folders, name = check_path(path)
        directory = open_folder(root, (*parts, *folders))
        try:
            self.descriptor = _open_at(directory, name, os.O_NONBLOCK)
        finally:
            os.close(directory)
        self._status = os.fstat(self.descriptor)
        if not stat.S_ISREG(self._status.st_mode):
            self.close()
            raise FileNotFoundError(f"{name} is not a plain file")

    @property
    def size(self) -> int:
        """Size of the file in bytes at the time when it was opened."""
        return self._status.st_size

    @property
    def identity(self) -> str:
        """Text that identifies this file: another file that later has the same path has another text."""
        return f"{self._status.st_dev}:{self._status.st_ino}"

    def read(self, size: int = _CHUNK) -> bytes:
        """Return the next bytes of the file, at most ``size``; b"" at its end."""
        return os.read(self.descriptor, size)

    def seek(self, offset: int) -> None:
        os.lseek(self.descriptor, offset, os.SEEK_SET)

    def seek_tail(self, lines: int) -> int:
        """Move to the beginning of the last ``lines`` lines, and return its offset. The last line may be
        incomplete.

        The part of the file before these lines is not read.
        """
        end = at = self.size
        if lines > 0 and end > 0:
            lines += os.pread(self.descriptor, 1, end - 1) == b"\n"  # the line end that closes the last line
        else:
            at = 0 if lines > 0 else end
        while lines > 0 and at > 0:
            begin = max(0, at - _CHUNK)
            chunk = os.pread(self.descriptor, at - begin, begin)
            found = len(chunk)
            while lines > 0 and found >= 0:
                found = chunk.rfind(b"\n", 0, found)
                lines -= found >= 0
            at = begin + found + 1 if lines == 0 else begin
        self.seek(at)
        return at

    def close(self) -> None:
        os.close(self.descriptor)


class Listed(NamedTuple):
    """File in a listing: path below the listed folder, size in bytes, and last change in unix seconds."""

    path: str
    size: int
    modified: float


def list_files(root: str, parts: Sequence[str]) -> tuple[list[Listed], bool]:
    """Return the plain files below a folder, sorted by path, and whether this list is complete.

    ``parts``: path of the folder below ``root``. The list has at most MOST_FILES files. Links are not
    followed. Raises FileNotFoundError.
    """
    directory = open_folder(root, parts)
    try:
        return _list(directory)
    finally:
        os.close(directory)


def open_folder(root: str, parts: Sequence[str]) -> int:
    """Open the folder to which ``parts`` lead from the folder ``root``, and return its descriptor.

    No link below ``root`` is followed. Raises FileNotFoundError, OSError.
    """
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts:
        try:
            inner = _open_at(directory, part, os.O_DIRECTORY)
        finally:
            os.close(directory)
        directory = inner
    return directory


def _list(directory: int) -> tuple[list[Listed], bool]:
    found: list[Listed] = []
    for at, folders, names, folder in os.fwalk(".", dir_fd=directory):
        prefix = "" if at == "." else at[2:] + "/"
        if not prefix:
            folders[:] = [
                name
                for name in folders
                if name != _PRIVATE and not (_ATTEMPT.fullmatch(name) and _is_attempt(folder, name))
            ]
        folders.sort()
        for name in sorted(names):
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:  # the folder was removed in the meantime
                continue
            if stat.S_ISREG(status.st_mode):
                if len(found) == MOST_FILES:
                    return sorted(found), False
                found.append(Listed(prefix + name, status.st_size, status.st_mtime))
    return sorted(found), True


def _is_attempt(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(f"{name}/{_OWN}", dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _open_at(directory: int, name: str, flags: int) -> int:
    """Open a file or folder. ``name``: its name, or how ``shown_name`` shows it."""
    flags |= os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            return os.open(name, flags, dir_fd=directory)
        except FileNotFoundError:
            if raw_name(name) == name:
                raise
            return os.open(raw_name(name), flags, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileNotFoundError(f"{name} cannot be read: {error.strerror}") from error
