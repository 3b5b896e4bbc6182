"""Checks of directories and files that a configuration names. Errors are phrases without a subject."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

__all__ = ["directory_fault", "file_fault", "working_fault"]


def directory_fault(directory: Path) -> str | None:
    """Return why code cannot be run from this directory, as the end of a sentence. Return None if it can."""
    fault = _kind_fault(directory, stat.S_ISDIR, "a directory")
    if fault is None and not os.access(directory, os.R_OK | os.X_OK):
        return f"cannot be read ({os.strerror(errno.EACCES)})"
    return fault


def file_fault(file: Path) -> str | None:
    """Return why this is not a readable file, as the end of a sentence. Return None if it is."""
    return _kind_fault(file, stat.S_ISREG, "a file")


def working_fault(directory: Path) -> str | None:
    """Return why files cannot be written below this directory, as the end of a sentence, or None.

    The directory need not exist yet.
    """
    place = directory
    while not os.path.lexists(place):
        place = place.parent
    fault = _kind_fault(place, stat.S_ISDIR, "a directory")
    if fault is None and not os.access(place, os.W_OK | os.X_OK):
        read_only = os.statvfs(place).f_flag & os.ST_RDONLY
        fault = f"cannot be written ({os.strerror(errno.EROFS if read_only else errno.EACCES)})"
    if fault is None or place == directory:
        return fault
    return f"cannot be made: {place} {fault}"


def _kind_fault(path: Path, is_kind: Callable[[int], bool], kind: str) -> str | None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except ValueError:
        return "cannot be a path: it holds the character NUL"
    return None if is_kind(mode) else f"is not {kind}"
