"""Small file systems that a test can fill, make read-only and give back."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_PIECE = 1 << 16
_DEADLINE_S = 30.0


class Disk:
    """A tmpfs on ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave no byte free."""
        descriptor = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (_PIECE, 4096):
                with contextlib.suppress(_Full):
                    while True:
                        _append(descriptor, bytes(size))
        finally:
            os.close(descriptor)

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink()

    def remount(self, options: str) -> None:
        """Once nothing is open for writing: a process that was killed closes its files a moment later."""
        end = time.monotonic() + _DEADLINE_S
        while True:
            try:
                return _mount("-o", f"remount,{options}", str(self.path))
            except subprocess.CalledProcessError as error:
                assert b"busy" in error.stderr and time.monotonic() < end, error.stderr
                time.sleep(0.01)


class _Full(Exception):
    pass


def _append(descriptor: int, content: bytes) -> None:
    try:
        if os.write(descriptor, content) != len(content):
            raise _Full
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise _Full from error


@contextlib.contextmanager
def disk(path: Path, *, size: str) -> Iterator[Disk]:
    """Mount a tmpfs of this size; skips the test where that is not permitted."""
    path.mkdir(parents=True)
    try:
        _mount("-t", "tmpfs", "-o", f"size={size},mode=755", "none", str(path))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    try:
        yield Disk(path)
    finally:
        # Lazily: what still runs on a failed test's disk must not keep it for ever.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
