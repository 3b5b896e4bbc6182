"""Writes, flushes and removes files."""

from __future__ import annotations

import os
import stat


def write_all(fd: int, piece: bytes | memoryview) -> None:
    """Write all bytes of ``piece`` to the descriptor ``fd``. Raises OSError."""
    done = os.write(fd, piece)
    while done < len(piece):
        done += os.write(fd, memoryview(piece)[done:])


def flush(path: str) -> None:
    """Make a file or a folder durable. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove(path: str) -> None:
    """Remove a path with its content, whatever its modes are. Do nothing if it does not exist.

    Raises OSError.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        os.unlink(path)
        return
    from trial_keeper.machine.removal import remove_folder  # loads a module that most keepers never need

    remove_folder(path)
