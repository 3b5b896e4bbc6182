"""Writes files that a user names, completely or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["written"]


@contextlib.contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write. It becomes ``path`` at the end of the block, unless the block raises.

    A link stays, and its target is written. A device or a pipe is written to directly. Raise OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with fresh.open("wb") as file:
            yield file
        fresh.replace(target)
    except OSError as error:
        if error.filename == str(fresh):  # a name that users do not know
            error.filename = str(path)
        raise
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
