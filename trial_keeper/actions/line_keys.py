"""Files with the keys by which the members of a gang prove who they are, one for each attempt that runs here.

They are in the keeper's folder and not in the trial's, whose files the server shows.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

_FOLDER = "line-keys"


def write(directory: str, job: str, key: str) -> str:
    """Write the key of an attempt, and return the path of its file. Raises OSError."""
    path = f"{directory}/{_FOLDER}/{job}"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    new = f"{path}.new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="ascii") as file:
        file.write(key)
    os.rename(new, path)
    return path


def remove(directory: str, job: str) -> None:
    """Remove the key of an attempt, if it has one."""
    with contextlib.suppress(OSError):
        os.unlink(f"{directory}/{_FOLDER}/{job}")


def keep_only(directory: str, live: Iterable[str]) -> None:
    """Remove the keys of all other attempts than these."""
    with contextlib.suppress(OSError):
        for name in set(os.listdir(f"{directory}/{_FOLDER}")).difference(live):
            remove(directory, name)
