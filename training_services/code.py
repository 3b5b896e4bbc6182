"""Packs trial code as one archive for machines that do not have the code. Equal content gets an equal name.

The name is a hash of the files' names, modes and contents, but not of their times: after a mere ``touch`` the
archive is not sent again. An experiment's archives are in the folder ``code`` of its directory. Keepers
download them over HTTP.
"""

from __future__ import annotations

import asyncio
import errno
import gzip
import hashlib
import os
import stat
import tarfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from training_services.base import ExperimentContext, ServiceUnavailable

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = [
    "IGNORE",
    "CodeArchive",
    "CodeLimits",
    "PackedCode",
    "archive_path",
    "code_folder",
    "measure_code",
    "pack_code",
]

IGNORE = ".nniignore"
# number of archives kept per experiment: a job whose start was ordered before the code changed still needs
# its archive
KEPT = 5
TRIES = 3  # attempts at a directory that changes while it is read
_SHOWN = 3  # number of largest entries that an error message names


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """Limits of a trial's code: number of files and folders, and bytes of all files together."""

    entries: int = 20_000
    size: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeArchive:
    """Archive with the trial code. ``size``: bytes of the archive; ``content``: bytes of the files in it."""

    path: Path
    sha256: str
    size: int
    content: int

    @property
    def order(self) -> dict[str, Any]:
        """Return the archive's hash and size for the field ``code`` of a start command (see
        ``trial_keeper.wire``).
        """
        return {"sha256": self.sha256, "size": self.size}


class _Entry(NamedTuple):
    name: str
    path: str
    status: os.stat_result


def code_folder(directory: Path) -> Path:
    """Return the folder with the code archives of an experiment, which is in ``directory``."""
    return directory / "code"


def archive_path(directory: Path, sha256: str) -> Path:
    """Return the path of the code archive with this hash in the experiment's directory.

    The file may not exist.
    """
    return code_folder(directory) / f"{sha256}.tar.gz"


def pack_code(source: Path, directory: Path, *, limits: CodeLimits | None = None) -> CodeArchive:
    """Pack the folder ``source`` (trialCodeDirectory) and return the archive. This blocks the thread.

    The archive is written to ``directory``, the experiment's directory. Experiments' folders inside the code
    are omitted, as well as sockets, pipes, devices, and files that ``.nniignore`` lists (in gitignore's
    syntax). Raises ServiceUnavailable if the code is missing, cannot be read, keeps changing, or exceeds the
    limits.
    """
    folder = code_folder(directory)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for attempt in range(TRIES):
            try:
                archive = _pack(source, directory, limits or CodeLimits())
                break
            except _Changed as changed:
                if attempt == TRIES - 1:
                    sentence = f"the trial code {changed} changes while it is read; list it in {IGNORE}"
                    raise ServiceUnavailable(sentence) from changed
    except OSError as error:
        where = error.filename or folder
        raise ServiceUnavailable(
            f"the trial code could not be packed: {where}: {error.strerror or error}"
        ) from error
    _drop_old(folder, archive.path)
    return archive


def measure_code(source: Path, shared: Path, *, limits: CodeLimits | None = None) -> tuple[int, int]:
    """Return the number of files and folders that ``pack_code`` would pack, and the sum of the files' bytes.

    ``shared`` is the folder in which the experiment's folder would be created. Raises ServiceUnavailable for
    the same reasons as ``pack_code``.
    """
    try:
        left_out = _left_out(source, shared / "experiment")
        found = list(_bounded(source, _entries(source, left_out, _ignored(source)), limits or CodeLimits()))
    except OSError as error:
        raise ServiceUnavailable(
            f"the trial code cannot be read: {error.filename or source}: {error.strerror or error}"
        ) from error
    return len(found), _content(found)


def _content(entries: Iterable[_Entry]) -> int:
    """Return the sum of the sizes of the files among the entries, in bytes."""
    return sum(entry.status.st_size for entry in entries if stat.S_ISREG(entry.status.st_mode))


class _Changed(Exception):
    """Error: a file of the trial code changed after it was listed and before it was packed."""


def _pack(source: Path, directory: Path, limits: CodeLimits) -> CodeArchive:
    entries = list(_bounded(source, _entries(source, _left_out(source, directory), _ignored(source)), limits))
    folder = code_folder(directory)
    fresh = folder / f"new.{os.getpid()}.{threading.get_ident()}"
    try:
        with fresh.open("wb") as file:
            sink = _Hashing(file)
            with (
                gzip.GzipFile(filename="", mode="wb", fileobj=sink, mtime=0, compresslevel=1) as packed,
                tarfile.open(
                    fileobj=packed,
                    mode="w|",
                    format=tarfile.GNU_FORMAT,
                    encoding="utf-8",
                    errors="surrogateescape",
                ) as tar,
            ):
                for entry in entries:
                    _add(tar, entry)
            file.flush()
            os.fsync(file.fileno())
        sha256 = sink.hash.hexdigest()
        path = archive_path(directory, sha256)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return CodeArchive(path=path, sha256=sha256, size=path.stat().st_size, content=_content(entries))


class _Hashing:
    """Writable file that also computes the hash of everything written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.hash = hashlib.sha256()
        self._file = file

    def write(self, piece: bytes) -> int:
        self.hash.update(piece)
        return self._file.write(piece)

    def flush(self) -> None:
        self._file.flush()


def _left_out(source: Path, directory: Path) -> set[str]:
    """Return the folders inside the trial code that must not be packed: this experiment's folder, and the
    folder of all experiments.
    """
    root = source.resolve()
    found = {directory.resolve(), directory.resolve().parent}
    return {str(path) for path in found if path != root and path.is_relative_to(root)}


def _ignored(source: Path) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # only here, because most servers pack no code

    try:
        text = (source / IGNORE).read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        text = ""
    try:
        return GitIgnoreSpec.from_lines(text.splitlines())
    except ValueError as error:
        raise ServiceUnavailable(f"{source / IGNORE} has an invalid line: {error}") from error


def _entries(source: Path, left_out: set[str], ignored: GitIgnoreSpec) -> Iterator[_Entry]:
    """Yield the files and folders of the trial code to pack, sorted by name.

    A folder precedes its content.
    """

    def walk(folder: str, prefix: str) -> Iterator[_Entry]:
        with os.scandir(folder) as found:
            children = sorted(found, key=lambda child: os.fsencode(child.name))
        for child in children:
            name = prefix + child.name
            status = child.stat(follow_symlinks=False)
            is_folder = stat.S_ISDIR(status.st_mode)
            if ignored.match_file(f"{name}/" if is_folder else name):
                continue
            if is_folder and os.path.join(root, name) not in left_out:
                yield _Entry(name, child.path, status)
                yield from walk(child.path, f"{name}/")
            elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                yield _Entry(name, child.path, status)

    root = str(source.resolve())
    return walk(root, "")


def _bounded(source: Path, entries: Iterator[_Entry], limits: CodeLimits) -> Iterator[_Entry]:
    """Yield the given entries (files and folders of the trial code).

    Raise ServiceUnavailable if there are too many entries, or if all files together are too large.
    """
    number, size = 0, 0
    numbers: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for entry in entries:
        top = entry.name.partition("/")[0]
        number += 1
        numbers[top] += 1
        if stat.S_ISREG(entry.status.st_mode):
            size += entry.status.st_size
            sizes[top] += entry.status.st_size
        if number > limits.entries:
            largest = ", ".join(f"{name} ({count:,})" for name, count in numbers.most_common(_SHOWN))
            raise ServiceUnavailable(
                f"the trial code in {source} has more than {limits.entries:,} files, too many to "
                f"send to other machines; most of those seen are in {largest}: "
                f"list files that trials do not need in {IGNORE}"
            )
        if size > limits.size:
            largest = ", ".join(f"{name} ({count >> 20:,} MiB)" for name, count in sizes.most_common(_SHOWN))
            raise ServiceUnavailable(
                f"the trial code in {source} is larger than {limits.size >> 20:,} MiB, too much to "
                f"send to other machines; most of that is in {largest}: "
                f"list files that trials do not need in {IGNORE}"
            )
        yield entry


def _add(tar: tarfile.TarFile, entry: _Entry) -> None:
    header = tarfile.TarInfo(entry.name)
    header.mode = stat.S_IMODE(entry.status.st_mode) & 0o777
    try:
        if stat.S_ISDIR(entry.status.st_mode):
            header.type = tarfile.DIRTYPE
            tar.addfile(header)
        elif stat.S_ISLNK(entry.status.st_mode):
            header.type = tarfile.SYMTYPE
            header.mode = 0o777
            header.linkname = os.readlink(entry.path)
            tar.addfile(header)
        else:
            with open(entry.path, "rb", opener=_no_link) as file:
                header.size = os.fstat(file.fileno()).st_size
                tar.addfile(header, file)
    except FileNotFoundError as error:
        raise _Changed(entry.path) from error
    except OSError as error:
        if error.errno in (None, errno.ELOOP):  # the file has become shorter, or is a link now
            raise _Changed(entry.path) from error
        raise


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _drop_old(folder: Path, newest: Path) -> None:
    """Delete all archives of the experiment's code except the newest ones (``KEPT``)."""
    found: list[tuple[float, Path]] = []
    for path in folder.glob("*.tar.gz"):
        try:
            found.append((path.stat().st_mtime, path))
        except OSError:
            continue
    for _, path in sorted(found, reverse=True)[KEPT:]:
        if path != newest:
            path.unlink(missing_ok=True)


class PackedCode:
    """Trial code of an experiment, packed once for all machines that need a copy."""

    def __init__(self, context: ExperimentContext) -> None:
        self._context = context
        self._packing: asyncio.Future[CodeArchive] | None = None

    async def pack(self) -> None:
        """Pack the trial code as it is now, unless it was packed before. Raises ServiceUnavailable."""
        failed = self._packing is not None and self._packing.done() and self._packing.exception() is not None
        if self._packing is None or failed:
            context = self._context
            packing = asyncio.to_thread(pack_code, context.trial_code_directory, context.directory)
            self._packing = asyncio.ensure_future(packing)
        await asyncio.shield(self._packing)

    @property
    def archive(self) -> CodeArchive:
        """Archive with the packed trial code. Available only after ``pack``."""
        assert self._packing is not None
        return self._packing.result()
