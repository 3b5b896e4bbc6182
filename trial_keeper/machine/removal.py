"""Removes folders with files of trials, which may have taken away their own right to write there."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
from typing import Any


def remove_folder(path: str) -> None:
    """Remove a folder with everything in it. Raise OSError with the full path of what cannot be removed.

    Folders that their owner must not change, such as those of Go's module cache, are made writable if they
    belong to this user. Links are not followed.
    """
    try:
        _remove(path)
    except PermissionError:
        _make_writable(path)
        _remove(path)


def _remove(path: str) -> None:
    option = "onexc" if sys.version_info >= (3, 12) else "onerror"
    handler: dict[str, Any] = {option: _fail}
    shutil.rmtree(path, **handler)


def _fail(_: Any, path: str, failure: Any) -> None:
    """Raise the error of a removal with the full path, because the error itself may have only the name."""
    error = failure[1] if isinstance(failure, tuple) else failure
    if isinstance(error, OSError) and error.errno is not None:
        raise OSError(error.errno, error.strerror, path) from error
    raise error


def _make_writable(path: str) -> None:
    _allow(path, None)
    for _, folders, _, descriptor in os.fwalk(path):  # enters a folder only after this loop has allowed it
        for name in folders:
            _allow(name, descriptor)


def _allow(name: str, parent: int | None) -> None:
    """Let the owner list and change a folder, if this user is the owner. Do nothing for a link."""
    with contextlib.suppress(OSError):  # the removal reports what cannot be changed
        folder = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            found = os.fstat(folder)
            if found.st_uid == os.geteuid() and found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
                # os.chmod does not take such a descriptor, but follows this link of the kernel to the folder
                os.chmod(f"/proc/self/fd/{folder}", stat.S_IMODE(found.st_mode) | stat.S_IRWXU)
        finally:
            os.close(folder)
