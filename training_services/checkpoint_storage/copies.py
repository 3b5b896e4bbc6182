"""Copies of checkpoints in a storage, under the same names as in the experiment's folder.

A copy is the folder ``<trial>/<attempt>-<number>``. Its manifest is stored after all other files and removed
before them. So a folder without a manifest is not a copy.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from training_services.checkpoint_storage.files import StorageFiles
from training_services.checkpoint_store import CheckpointStore, Damaged
from training_services.job_ids import job_id_of, trial_of_job
from trial_keeper.checkpoints import contents
from trial_keeper.checkpoints.incoming import FILES

__all__ = ["Found", "Interrupted", "Name", "StoredCopies"]

Name = tuple[str, int]  # job that has saved the checkpoint, and the checkpoint's number

_FOLDER = re.compile(r"([^/-]+)/([1-9]\d*)-([1-9]\d*)/(.+)", re.DOTALL)
_PIECE = 1 << 20
_LONGEST_MANIFEST = 32 << 20


class Interrupted(Exception):
    """Error: the work was interrupted, because the experiment is closed."""


@dataclass(slots=True)
class Found:
    """Copies in the storage. ``whole``: complete copies. ``begun``: all copies of which it has files."""

    whole: set[Name] = field(default_factory=set)
    begun: set[Name] = field(default_factory=set)


class StoredCopies:
    """Copies of one experiment's checkpoints in a storage. ``store``: the copies on the server's disk.

    ``interrupted`` returns True if the work is to end early. All methods block the thread, and raise
    StorageError, OSError and Interrupted.
    """

    def __init__(
        self,
        experiment_id: str,
        files: StorageFiles,
        store: CheckpointStore,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._experiment_id, self._files, self._store = experiment_id, files, store
        self._interrupted = interrupted

    def find(self) -> Found:
        """Return the copies in the storage. Files with other names do not count.

        A copy that differs from an undamaged one on the server's disk is not whole.
        """
        folders: dict[Name, dict[str, int]] = {}
        for path, size in self._files.sizes().items():
            if (match := _FOLDER.fullmatch(path)) is not None:
                trial_id, attempt, number, name = match.groups()
                job_id = job_id_of(self._experiment_id, trial_id, int(attempt))
                folders.setdefault((job_id, int(number)), {})[name] = size
        whole = {name for name, sizes in folders.items() if self._is_whole(name, sizes)}
        return Found(whole=whole, begun=set(folders))

    def _is_whole(self, name: Name, sizes: dict[str, int]) -> bool:
        self._check_interruption()
        if contents.MANIFEST not in sizes:
            return False
        try:
            manifest = self._manifest(name)
            entries, _ = contents.read_manifest(manifest)
        except (FileNotFoundError, ValueError):
            return False
        files = [entry for entry in entries if not entry.is_folder]
        if any(sizes.get(f"{FILES}/{entry.name}") != entry.size for entry in files):
            return False
        try:
            own = self._store.manifest(*name)
            contents.check_sizes(str(self._store.path(*name) / FILES), contents.read_manifest(own)[0])
        except (FileNotFoundError, ValueError):
            return True
        return own == manifest

    def upload(self, name: Name) -> None:
        """Store the copy that is on the server's disk.

        Raises FileNotFoundError and ValueError if that copy is missing or damaged.
        """
        entries, _ = contents.read_manifest(self._store.manifest(*name))
        source, target = self._store.path(*name), self._folder(name)
        contents.check_sizes(str(source / FILES), entries)
        for entry in entries:
            self._check_interruption()
            if not entry.is_folder:
                self._files.put(f"{target}/{FILES}/{entry.name}", source / FILES / entry.name)
        self._check_interruption()
        self._files.put(f"{target}/{contents.MANIFEST}", source / contents.MANIFEST)

    def restore(self, name: Name) -> None:
        """Fetch a copy from the storage to the server's disk, and compare it with its manifest.

        An interrupted transfer is continued. Raises FileNotFoundError if the storage has no such copy, and
        Damaged.
        """
        entries, hashes = self.manifest(name)
        incoming = self._store.resume(*name)
        if incoming is None or incoming.entries != entries:
            incoming = self._store.begin(*name, entries)
        try:
            with contextlib.closing(incoming):
                for piece in self.content(name, entries, incoming.offset):
                    incoming.write(piece)
                self._store.finish(*name, incoming, hashes)
        except Damaged:
            self._store.drop_part(*name)
            raise

    def remove(self, name: Name) -> None:
        """Remove a copy, and what an interrupted transfer has left of it."""
        folder = self._folder(name)
        self._files.remove_file(f"{folder}/{contents.MANIFEST}")
        self._files.remove_folder(folder)

    def manifest(self, name: Name) -> tuple[list[contents.Entry], list[str]]:
        """Return the list of files of a copy, and their hashes. Raises FileNotFoundError, Damaged."""
        try:
            return contents.read_manifest(self._manifest(name))
        except ValueError as error:
            raise Damaged(str(error)) from error

    def content(self, name: Name, entries: Sequence[contents.Entry], offset: int = 0) -> Iterator[bytes]:
        """Yield the contents of all files from a position on. Raises Damaged if a file has other bytes."""
        for entry in entries:
            if offset >= entry.size:
                offset -= entry.size
                continue
            left, start, offset = entry.size - offset, offset, 0
            with contextlib.closing(self._files.open(f"{self._folder(name)}/{FILES}/{entry.name}")) as file:
                file.seek(start)
                while left > 0:
                    self._check_interruption()
                    piece = file.read(min(_PIECE, left))
                    if not piece:
                        raise Damaged(f"{entry.name} has less than {entry.size:,} bytes in the storage")
                    left -= len(piece)
                    yield piece

    def _manifest(self, name: Name) -> bytes:
        with contextlib.closing(self._files.open(f"{self._folder(name)}/{contents.MANIFEST}")) as file:
            return b"".join(iter(lambda: file.read(_LONGEST_MANIFEST), b""))

    def _folder(self, name: Name) -> str:
        job_id, number = name
        trial_id, attempt = trial_of_job(job_id)
        return f"{trial_id}/{attempt}-{number}"

    def _check_interruption(self) -> None:
        if self._interrupted():
            raise Interrupted
