"""Creates files and folders that only their owner may use, whatever the umask of the process is.

This module uses only the standard library and is quick to import.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["FILE", "FOLDER", "forbid_writing", "make_private_folder", "open_private", "tighten"]

FOLDER = 0o700
FILE = 0o600
_WRITING = 0o022  # write permission of group and others


def make_private_folder(path: Path) -> None:
    """Create the folder and its missing parents with mode 0700. Existing folders are not changed."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        try:
            folder.mkdir(mode=FOLDER)
        except FileExistsError:
            continue
        folder.chmod(FOLDER)
    if not path.is_dir():
        raise NotADirectoryError(20, os.strerror(20), str(path))


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file with mode 0600, and set that mode if the file exists. Use it as ``opener`` of ``open``."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, FILE)
    with contextlib.suppress(PermissionError):  # the file belongs to another user, and we may write to it
        if os.fstat(descriptor).st_mode & 0o7777 != FILE:
            os.fchmod(descriptor, FILE)
    return descriptor


def tighten(path: Path, mode: int) -> None:
    """Remove permissions beyond ``mode`` from the file or folder, if it exists and belongs to this user."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        found = path.stat().st_mode & 0o7777
        if found & ~mode:
            path.chmod(found & mode)


def forbid_writing(path: Path) -> None:
    """Remove the write permission of group and others from the file or folder.

    Other permissions are not changed.
    """
    tighten(path, 0o7777 & ~_WRITING)
