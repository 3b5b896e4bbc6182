"""Files to which batches are appended, together with the number of the last event in them.

The cursor file has this number. Before a batch is written, it also gets the sizes of the files that the batch
appends to. If the process is killed meanwhile, the next one cuts these files off there. So a batch is written
as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nnimgr.sink import Experiment, SinkError

__all__ = ["AppendedFiles", "owner_of"]

CURSOR = "cursor.json"


class AppendedFiles:
    """Files of one experiment in a folder. The methods raise SinkError or OSError.

    ``sink``: name of the sink that writes them, because each needs a folder of its own.
    """

    def __init__(self, folder: Path, experiment: Experiment, *, sink: str) -> None:
        self.folder = folder
        self._owner = {"experiment": experiment.id, "key": experiment.key, "sink": sink}
        self._number = 0

    def open(self) -> int:
        """Cut off what an unfinished batch has left, and return the number of the last event."""
        self.folder.mkdir(parents=True, exist_ok=True)
        cursor = _read_cursor(self.folder)
        self._check_owner(cursor)
        for name, part in cursor.get("replaced", {}).items():
            if (self.folder / part).exists():
                (self.folder / part).replace(self.folder / name)
        for path in self.folder.glob("*.part"):
            path.unlink()
        for name, size in cursor.get("pending", {}).items():
            if (found := self.size(name)) < size:
                raise SinkError(
                    f"{self.folder / name} has {found} bytes instead of {size}: another program has changed "
                    f"it. Remove {self.folder} to have everything written again"
                )
            if found > size:
                os.truncate(self.folder / name, size)
        self._number = int(cursor.get("number", 0))
        return self._number

    def _check_owner(self, cursor: Mapping[str, Any]) -> None:
        """Raise SinkError if the files are those of another experiment or sink.

        Earlier versions have noted only the experiment's id.
        """
        there = {**self._owner, **cursor}
        if there["experiment"] != self._owner["experiment"]:
            found = f"the events of experiment {there['experiment']}, and each experiment"
        elif there["key"] != self._owner["key"]:
            found = f"the events of an earlier experiment {there['experiment']}, and each experiment"
        elif there["sink"] != self._owner["sink"]:
            found = f"the files of the sink {there['sink']}, and each sink"
        else:
            return
        raise SinkError(
            f"the directory {self.folder} has {found} needs a directory of its own (classArgs.directory)"
        )

    def size(self, name: str) -> int:
        """Return the size of a file; 0 if there is none."""
        try:
            return (self.folder / name).stat().st_size
        except FileNotFoundError:
            return 0

    def commit(
        self,
        number: int,
        appended: Mapping[str, Iterable[bytes]],
        replaced: Mapping[str, Iterable[bytes]] | None = None,
    ) -> None:
        """Append to files, replace the whole content of others, and store the number of the last event."""
        pending = {name: self.size(name) for name in appended}
        self._write_cursor({"number": self._number, "pending": pending})
        for name, pieces in appended.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            _write(self.folder / name, "ab", pieces)
        parts = {name: f"{name}.{number}.part" for name in replaced or {}}
        for name, pieces in (replaced or {}).items():
            _write(self.folder / parts[name], "wb", pieces)
        self._write_cursor({"number": number, "replaced": parts})
        for name, part in parts.items():
            (self.folder / part).replace(self.folder / name)
        self._number = number

    def _write_cursor(self, cursor: Mapping[str, Any]) -> None:
        """Replace the cursor file, so that the new one survives power loss."""
        fresh = self.folder / f"{CURSOR}.part"
        _write(fresh, "wb", [json.dumps({**self._owner, **cursor}).encode()])
        fresh.replace(self.folder / CURSOR)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _flush(descriptor)
        finally:
            os.close(descriptor)


def owner_of(folder: Path) -> str | None:
    """Return the id of the experiment whose events are in this folder; None if there is none."""
    try:
        return str(json.loads((folder / CURSOR).read_text(encoding="utf-8"))["experiment"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_cursor(folder: Path) -> dict[str, Any]:
    """Return the content of the cursor file; {} if there is none. Raise SinkError if it is damaged."""
    path = folder / CURSOR
    try:
        cursor = json.loads(path.read_text(encoding="utf-8"))
        cursor["experiment"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise SinkError(f"{path} is damaged: remove {folder} to have everything written again") from error
    assert isinstance(cursor, dict)
    return cursor


def _write(path: Path, mode: str, pieces: Iterable[bytes]) -> None:
    with path.open(mode) as file:
        file.writelines(pieces)
        file.flush()
        _flush(file.fileno())


def _flush(descriptor: int) -> None:
    """Flush a file to disk. A file system that cannot flush is used without it."""
    with contextlib.suppress(OSError):
        os.fsync(descriptor)
