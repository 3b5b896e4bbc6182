"""Index of a user's experiments: the file ``<home>/.experiment``, in NNI's format.

The file is a JSON object (experiment id -> entry), indented by four. Every change reads and replaces the
whole file under a lock, so that readers always see a complete file. Entries and keys of other programs are
kept.

Standard library only and quick to import.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import string
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.home import Home, HomeError
from training_services.private import open_private

__all__ = [
    "Index",
    "IndexDamaged",
    "IndexEntry",
    "check_experiment_id",
    "new_experiment_id",
    "seed_of",
]

_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
_NOT_ENDED = "N/A"


class IndexDamaged(HomeError):
    """Error: the index of experiments has a format that neither NNI nor nnimgr writes. It was not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """Entry of one experiment in the index of experiments.

    ``status``: NNI's name as a plain string, because NNI itself may have written it. ``log_dir``: the field
    experimentWorkingDirectory. ``directory``: the experiment's own folder.
    """

    id: str
    port: int | None
    started_at: datetime | None
    ended_at: datetime | None
    status: str
    platform: str
    name: str
    log_dir: str
    pid: int | None = None
    webui_url: tuple[str, ...] = ()
    prefix_url: str | None = None
    tag: tuple[str, ...] = ()
    archived: bool = False  # hidden by a user; NNI does not know this field

    @property
    def directory(self) -> Path:
        return Path(os.path.abspath(self.log_dir)) / self.id


class Index:
    """Index of the experiments in one home directory. Every call reads the file, and blocks meanwhile.

    Changes are made one after the other, also those of different processes.
    """

    def __init__(self, home: Home) -> None:
        self._home = home

    def entries(self) -> dict[str, IndexEntry]:
        """Return all experiments by their ids, in the order of their creation. Raise IndexDamaged.

        Entries whose key cannot be an id are left out: the key is part of paths, also of those to delete.
        """
        return {
            key: _entry(key, raw)
            for key, raw in self._read().items()
            if isinstance(raw, dict) and _ID.fullmatch(key)
        }

    def stamp(self) -> tuple[int, int] | None:
        """Return a value that changes whenever the index file changes. Return None if there is no file."""
        try:
            status = self._home.index_path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def raw(self) -> list[dict[str, Any]]:
        """Return all entries of the index file unchanged, with keys of other programs. Raise IndexDamaged."""
        return [raw for raw in self._read().values() if isinstance(raw, dict)]

    def get(self, experiment_id: str) -> IndexEntry | None:
        return self.entries().get(experiment_id)

    def add(self, entry: IndexEntry) -> None:
        """Add an experiment to the index. Raise ValueError if the id is taken, IndexDamaged, or HomeError."""
        with self.changing() as raw:
            if entry.id in raw:
                raise ValueError(f"Experiment id {entry.id} is taken already.")
            raw[entry.id] = _raw(entry)

    def put(self, entry: IndexEntry) -> None:
        """Add the entry of an experiment, or replace its fields. Keys of other programs are kept."""
        with self.changing() as raw:
            before = raw.get(entry.id)
            raw[entry.id] = {**(before if isinstance(before, dict) else {}), **_raw(entry)}

    def update(self, experiment_id: str, **changes: Any) -> None:
        """Change fields of an experiment's entry. ``changes``: field of ``IndexEntry`` -> new value.

        Raise KeyError for an unknown id or field.
        """
        named = {_KEYS[name]: _plain(value, name) for name, value in changes.items()}
        with self.changing() as raw:
            if not isinstance(raw.get(experiment_id), dict):
                raise KeyError(experiment_id)
            raw[experiment_id].update(named)

    def remove(self, experiment_id: str) -> bool:
        """Remove the entry of an experiment. Return False if there was no entry."""
        with self.changing() as raw:
            return raw.pop(experiment_id, None) is not None

    def _read(self) -> dict[str, Any]:
        path = self._home.index_path
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError as error:
            raise IndexDamaged(_damaged(path, f"it is not UTF-8 text ({error.reason})")) from error
        except OSError as error:
            raise HomeError(f"The index {path} cannot be read: {error.strerror}.") from error
        if not text.strip():
            return {}
        try:
            raw = json.loads(text)
        except ValueError as error:
            raise IndexDamaged(_damaged(path, f"it is not JSON ({error})")) from error
        if not isinstance(raw, dict):
            raise IndexDamaged(_damaged(path, "it does not hold a JSON object"))
        return raw

    @contextlib.contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Yield the content of the index file under its lock. If the block changes it, write it to the file.

        Raise IndexDamaged or HomeError.
        """
        self._home.prepare()
        lock = self._home.path / ".experiment.lock"
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise HomeError(f"The index's lock {lock} cannot be opened: {error.strerror}.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            raw = self._read()
            before = json.dumps(raw)
            yield raw
            if json.dumps(raw) != before:
                self._write(raw)
        finally:
            os.close(descriptor)

    def _write(self, raw: Mapping[str, Any]) -> None:
        path = self._home.index_path
        fresh = path.with_name(".experiment.new")
        try:
            with open(fresh, "w", encoding="utf-8", opener=open_private) as file:
                json.dump(raw, file, indent=4)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise HomeError(f"The index {path} cannot be written: {error.strerror}.") from error


def new_experiment_id(taken: Collection[str] = ()) -> str:
    """Return a new id in NNI's format: eight distinct characters of [a-z0-9]."""
    import random  # imported here, because the import is slow and only a creation needs it

    draw = random.SystemRandom()
    while True:
        experiment_id = "".join(draw.sample(string.ascii_lowercase + string.digits, 8))
        if experiment_id not in taken:
            return experiment_id


def seed_of(experiment_id: str) -> int:
    """Return the seed of the experiment's random numbers, derived from its id."""
    return zlib.crc32(experiment_id.encode())


def check_experiment_id(text: str) -> str:
    """Return ``text`` if it is valid as an experiment id, otherwise raise ValueError."""
    if not _ID.fullmatch(text):
        raise ValueError(
            f"{text!r} cannot be an experiment id: it takes 1 to 32 letters, digits, '_' and '-'."
        )
    return text


_KEYS = {
    "id": "id",
    "port": "port",
    "started_at": "startTime",
    "ended_at": "endTime",
    "status": "status",
    "platform": "platform",
    "name": "experimentName",
    "tag": "tag",
    "pid": "pid",
    "webui_url": "webuiUrl",
    "log_dir": "logDir",
    "prefix_url": "prefixUrl",
    "archived": "archived",
}
_OWN = "archived"  # a key that NNI does not have; it is written only after a user has set it


def _raw(entry: IndexEntry) -> dict[str, Any]:
    raw = {key: _plain(getattr(entry, name), name) for name, key in _KEYS.items()}
    if not entry.archived:
        del raw[_OWN]
    return raw


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    if value is None and name == "ended_at":
        return _NOT_ENDED
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _entry(key: str, raw: Mapping[str, Any]) -> IndexEntry:
    return IndexEntry(
        id=key,
        port=_whole(raw.get("port")),
        started_at=_instant(raw.get("startTime")),
        ended_at=_instant(raw.get("endTime")),
        status=str(raw.get("status") or "UNKNOWN"),
        platform=str(raw.get("platform") or ""),
        name=str(raw.get("experimentName") or ""),
        log_dir=str(raw.get("logDir") or ""),
        pid=_whole(raw.get("pid")),
        webui_url=_strings(raw.get("webuiUrl")),
        prefix_url=str(raw["prefixUrl"]) if raw.get("prefixUrl") else None,
        tag=_strings(raw.get("tag")),
        archived=raw.get(_OWN) is True,
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _instant(value: Any) -> datetime | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return datetime.fromtimestamp(value / 1000, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _damaged(path: Path, why: str) -> str:
    return (
        f"The index {path} cannot be used: {why}. Move it away to start a new one; "
        "the experiments' own folders are not touched by that."
    )
