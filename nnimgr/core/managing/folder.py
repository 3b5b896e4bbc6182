"""Folder of an experiment: its creation, its deletion, and the stored environment of its creator."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nnimgr.core.running.requests import RequestRefused
from nnimgr.dispatcher.registry import Interpreter
from nnimgr.index import Index, IndexEntry
from nnimgr.rules.phrases import trial_count
from nnimgr.store.holder import holder
from nnimgr.store.location import database_path, missing_database
from nnimgr.store.overview import lacks_command, stored_live_trials
from training_services.private import FOLDER, make_private_folder, tighten
from trial_keeper.machine.removal import remove_folder

# Contents of an experiment's folder that are deleted before and after the others. What trials have written
# comes first, because there a deletion may fail. What shows or resumes the experiment comes last.
_DELETED_FIRST = ("trials", "checkpoint")
_DELETED_LAST = ("log", "environ.json", "db")
_REMOVALS = 20  # number of attempts to remove a folder while other processes put files into it


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Environment in which an experiment was created: variables, directory, Python, and the configuration's
    secrets.

    It is stored in ``environ.json`` (mode 0600, because it may hold secrets).
    """

    environ: Mapping[str, str] = field(repr=False)
    cwd: Path
    python: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # the secrets of the configuration

    @classmethod
    def of_creator(
        cls, *, environ: Mapping[str, str] | None, cwd: str | None, python: str | None
    ) -> Surroundings:
        """Return the environment of an experiment's creator. Parts that are None are taken from this
        process.
        """
        return cls(
            environ=dict(os.environ if environ is None else environ),
            cwd=Path(cwd or os.getcwd()),
            python=python or sys.executable,
        )

    @property
    def interpreter(self) -> Interpreter:
        return Interpreter(python=self.python, environ=self.environ)

    @classmethod
    def read(cls, directory: Path) -> Surroundings:
        """Read the environment from ``environ.json`` in the experiment's folder. Raise OSError."""
        path = directory / "environ.json"
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                environ=body["environ"],
                cwd=Path(body["cwd"]),
                python=body["python"],
                secrets=body.get("secrets", {}),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            sentence = "the file is damaged; put a copy of it back, for example from a backup"
            raise OSError(errno.EINVAL, sentence, str(path)) from error

    def write(self, directory: Path) -> None:
        """Write the environment to ``environ.json`` in the experiment's folder, and flush the file to
        disk.
        """
        path = directory / "environ.json"
        fresh = path.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        body = {
            "environ": dict(self.environ),
            "cwd": str(self.cwd),
            "python": self.python,
            "secrets": dict(self.secrets),
        }
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(body, file)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:  # such as a full disk, for which Python names no file
            raise OSError(error.errno, error.strerror, str(path)) from error
        fresh.replace(path)


def make_folder(directory: Path, surroundings: Surroundings) -> None:
    """Create the private folder of a new experiment, and set NNI's link ``_latest`` to this folder."""
    make_private_folder(directory)
    tighten(directory, FOLDER)  # a user may have created the folder with other permissions
    for name in ("log", "trials", "checkpoint"):
        make_private_folder(directory / name)
    surroundings.write(directory)
    with contextlib.suppress(OSError):  # the link is only a convenience
        fresh = directory.parent / f"_latest.{directory.name}"
        fresh.symlink_to(directory.name)
        fresh.replace(directory.parent / "_latest")


def flush_folder(directory: Path) -> None:
    """Flush a folder to disk, so that the names of new files in it survive power loss."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_database(directory: Path) -> None:
    """Raise RequestRefused if the folder has no database of nnimgr."""
    if not database_path(directory).exists():
        raise RequestRefused(missing_database(directory.name, directory))


def require_command(directory: Path) -> None:
    """Raise RequestRefused if the experiment has no database, or was imported without a trial command."""
    require_database(directory)
    if lacks_command(directory):
        raise RequestRefused(
            f"experiment {directory.name} was imported without a trial command, so it cannot run trials: "
            "import it again with a configuration"
        )


def refuse_live(entry: IndexEntry) -> None:
    """Raise RequestRefused if trials of the experiment may still run, because it was detached."""
    live = stored_live_trials(entry.directory)
    if live:
        verb = "runs" if live == 1 else "run"
        raise RequestRefused(f"{trial_count(live)} of experiment {entry.id} still {verb}: stop it first")


def delete_experiment(index: Index, entry: IndexEntry) -> list[str]:
    """Remove a stopped experiment's folder and index entry; return sentences about files that stay.

    The index entry is removed last, so that the deletion can be repeated after a crash. Raise RequestRefused,
    OSError or HomeError.
    """
    refuse_live(entry)
    left = delete_folder(entry.directory)
    index.remove(entry.id)
    return left


def delete_folder(directory: Path) -> list[str]:
    """Remove the folder of an experiment that no server has open; return sentences about files that stay.

    The database is removed last, so that a partly deleted folder can still be recognised, and other commands
    can still be used if the deletion fails. A folder with files but no database stays, because the files may
    be another's. Raise RequestRefused or OSError.
    """
    if not directory.is_absolute() or directory.is_symlink():
        raise RequestRefused(f"{directory} is not the folder of an experiment: nothing was deleted")
    if directory.exists():
        database = directory / "db"
        if not database.is_dir() and any(directory.iterdir()):
            return [f"{directory} has no database, so the files in it stay"]
        with _locked(database):
            for child in sorted(directory.iterdir(), key=_turn):
                if child.is_symlink() or not child.is_dir():
                    child.unlink(missing_ok=True)
                else:
                    _remove_folder(child)
        _remove_folder(directory)
    latest = directory.parent / "_latest"
    if latest.is_symlink() and os.readlink(latest) == directory.name:
        latest.unlink()
    return []


def _turn(path: Path) -> int:
    """Return when a file or folder of an experiment is deleted: those with smaller numbers come first."""
    if path.name in _DELETED_FIRST:
        return -1
    return _DELETED_LAST.index(path.name) + 1 if path.name in _DELETED_LAST else 0


def _remove_folder(folder: Path) -> None:
    """Remove a folder that other processes may be using. Do nothing if it does not exist.

    Readers of the database, a starting TensorBoard and others may still create or remove files in the folder.
    If that prevents the removal, the removal is repeated. They cannot begin after the database is removed, so
    few repetitions are needed.
    """
    for remaining in reversed(range(_REMOVALS)):
        if not folder.exists():
            return
        try:
            return remove_folder(str(folder))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT) or not remaining:
                raise


@contextlib.contextmanager
def _locked(database: Path) -> Iterator[None]:
    """Hold the lock of the database inside the ``with`` block. Raise RequestRefused if a server has the
    database open.
    """
    try:
        descriptor = os.open(database / "nnimgr.lock", os.O_RDWR)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        where = f"experiment {database.parent.name} is open in another server"
        raise RequestRefused(f"{where}{holder(descriptor)}") from None
    finally:
        os.close(descriptor)
