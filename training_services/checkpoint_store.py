"""Copies of checkpoints in the experiment's folder, which outlive the hosts that have made the checkpoints.

A copy is the folder ``checkpoints/<trial>/<attempt>-<number>``, with ``manifest.json`` (names, sizes and
hashes) and the folder ``files``. It is received in ``.part-<attempt>-<number>`` beside it, flushed, and then
renamed. So a folder without that prefix is whole, and durable once its parent was flushed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO

from training_services.base import KeptCopy
from training_services.job_ids import trial_of_job
from training_services.private import make_private_folder
from trial_keeper.checkpoints import contents
from trial_keeper.checkpoints.contents import Entry
from trial_keeper.checkpoints.incoming import FILES, Damaged, Incoming, read_list
from trial_keeper.machine.disk import flush, remove

__all__ = ["CheckpointStore", "Damaged", "Incoming", "StoredContent"]

_PART, _GONE = ".part-", ".gone-"


class CheckpointStore:
    """Store of an experiment's copies. ``directory``: the experiment's folder.

    A copy is named by the job that has saved the checkpoint, and by the checkpoint's number. All methods
    block the thread, and raise OSError. They may be called from several threads.
    """

    def __init__(self, directory: Path) -> None:
        self._folder = directory / "checkpoints"
        # Two removals of one copy at a time would disturb each other, and leave what they had not reached.
        self._removing = threading.Lock()

    def path(self, job_id: str, number: int) -> Path:
        """Return the folder of a copy, which may not exist."""
        trial_id, attempt = trial_of_job(job_id)
        return self._folder / trial_id / f"{attempt}-{number}"

    def _part(self, job_id: str, number: int) -> Path:
        path = self.path(job_id, number)
        return path.with_name(_PART + path.name)

    # ---- receiving ----------------------------------------------------------------------------------------

    def resume(self, job_id: str, number: int) -> Incoming | None:
        """Return what an interrupted transfer of this checkpoint has left, or None."""
        part = str(self._part(job_id, number))
        entries = read_list(part)
        return None if entries is None else Incoming(part, entries)

    def begin(self, job_id: str, number: int, entries: Sequence[Entry]) -> Incoming:
        """Return an empty folder for the files of this checkpoint."""
        make_private_folder(self._folder / trial_of_job(job_id)[0])
        part = str(self._part(job_id, number))
        remove(part)
        return Incoming(part, entries)

    def finish(self, job_id: str, number: int, incoming: Incoming, hashes: Sequence[str]) -> KeptCopy:
        """Make the received files a copy, which is durable when this method returns.

        ``hashes``: SHA-256 of each file, as the sender has computed them. Raises Damaged.
        """
        manifest = incoming.finish(hashes, durable=True)
        with open(f"{incoming.folder}/{contents.MANIFEST}", "wb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        flush(incoming.folder)
        path = self.path(job_id, number)
        remove(str(path))  # a copy that no fact names
        os.rename(incoming.folder, path)
        for folder in (path.parent, self._folder, self._folder.parent):
            flush(str(folder))
        return KeptCopy(digest=hashlib.sha256(manifest).hexdigest(), size=incoming.size)

    def drop_part(self, job_id: str, number: int) -> None:
        """Remove what an interrupted transfer of this checkpoint has left."""
        with self._removing:
            remove(str(self._part(job_id, number)))

    def drop_parts(self, trial_id: str) -> None:
        """Remove what interrupted transfers of the trial's checkpoints have left."""
        folder = self._folder / trial_id
        with self._removing:
            for path in list(folder.iterdir()) if folder.is_dir() else ():
                if path.name.startswith(_PART):
                    remove(str(path))

    # ---- sending ------------------------------------------------------------------------------------------

    def manifest(self, job_id: str, number: int) -> bytes:
        """Return the manifest of a copy. Raises FileNotFoundError."""
        return (self.path(job_id, number) / contents.MANIFEST).read_bytes()

    def content(self, job_id: str, number: int) -> StoredContent:
        """Open the content of a copy. Raises FileNotFoundError, and ValueError if its files have changed."""
        entries, _ = contents.read_manifest(self.manifest(job_id, number))
        folder = self.path(job_id, number) / FILES
        contents.check_sizes(str(folder), entries)
        return StoredContent(folder, entries)

    def check(self, job_id: str, number: int) -> None:
        """Read a copy, and compare it with its manifest. Raises FileNotFoundError, and ValueError if it is
        damaged.
        """
        entries, hashes = contents.read_manifest(self.manifest(job_id, number))
        folder = self.path(job_id, number) / FILES
        contents.check_sizes(str(folder), entries)
        names = [entry.name for entry in entries if not entry.is_folder]
        for name, wanted in zip(names, hashes, strict=True):
            with open(folder / name, "rb", opener=_no_link) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != wanted:
                    raise ValueError(f"the hash of {name} is wrong")

    # ---- removing -----------------------------------------------------------------------------------------

    def remove(self, job_id: str, up_to: int, keep: Collection[int]) -> None:
        """Remove the copies of the job's checkpoints up to a number, except those in ``keep``."""
        _, attempt = trial_of_job(job_id)
        parent = self.path(job_id, 0).parent
        with self._removing:
            for name, number in _numbers(parent, attempt):
                if number <= up_to and number not in keep:
                    self._discard(parent / name)

    def tidy(self, known: Collection[tuple[str, int]], wanted: Collection[tuple[str, int]]) -> None:
        """Remove all copies except the known ones, and all unfinished transfers except the wanted ones.

        Each is named by its job and its number.
        """
        stay = {self.path(*each) for each in known} | {self._part(*each) for each in wanted}
        with self._removing:
            for trial in list(self._folder.iterdir()) if self._folder.is_dir() else ():
                for path in list(trial.iterdir()):
                    if path not in stay:
                        self._discard(path)
                with contextlib.suppress(OSError):
                    trial.rmdir()  # if it is empty

    def _discard(self, path: Path) -> None:
        """Remove a folder. It is renamed first, so that an incomplete one never counts as a copy."""
        gone = path.with_name(_GONE + path.name)
        if not path.name.startswith(_GONE):
            remove(str(gone))
            os.rename(path, gone)
        remove(str(gone if gone.exists() else path))


def _numbers(folder: Path, attempt: int) -> Iterator[tuple[str, int]]:
    """Yield the name and the checkpoint's number of each copy and unfinished transfer of an attempt."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        of, _, number = name.removeprefix(_PART).partition("-")
        if of == str(attempt) and number.isdecimal():
            yield name, int(number)


class StoredContent:
    """Content of a copy, to be read from a position on: the contents of its files, one after the other."""

    def __init__(self, folder: Path, entries: Sequence[Entry]) -> None:
        self.size = contents.size_of(entries)
        self._folder = folder
        self._entries = [entry for entry in entries if not entry.is_folder]
        self._file: IO[bytes] | None = None

    def seek(self, offset: int) -> None:
        """Continue at this position."""
        self.close()
        while self._entries and offset >= self._entries[0].size:
            offset -= self._entries.pop(0).size
        if self._entries:
            self._file = self._open()
            self._file.seek(offset)

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most ``size``; b"" at the end. Raises OSError."""
        while self._entries:
            if self._file is None:
                self._file = self._open()
            piece = self._file.read(size)
            if piece:
                return piece
            self.close()
            del self._entries[0]
        return b""

    def _open(self) -> IO[bytes]:
        return open(self._folder / self._entries[0].name, "rb", opener=_no_link)

    def close(self) -> None:
        """Close the open file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
