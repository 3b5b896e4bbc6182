"""Store for the trials' code on this machine, shared by all keepers. Each version is downloaded only once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time

from trial_keeper.calls import connection as connections
from trial_keeper.calls.connection import CallFailed
from trial_keeper.code import unpacked
from trial_keeper.code.unpacked import Entry
from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.machine import disk

if TYPE_CHECKING:
    from typing import Callable, Iterator

LIMIT = 10 << 30  # bytes of the whole store; above this, the least recently used code is removed
STALE_S = 86_400.0  # seconds; an incomplete download of this age is not continued
READ_S = 30.0
_PIECE = 1 << 18
_HASH = re.compile("[0-9a-f]{64}")


class Tree(NamedTuple):
    """Unpacked code on this machine: the path of its folder, and the list of its files, folders and links."""

    path: str
    entries: list[Entry]


def default_folder() -> str:
    """Return the folder of the code store, which all keepers of this user on this machine share."""
    home = os.environ.get("NNIMGR_HOME") or os.path.expanduser("~/nni-experiments")
    return os.path.join(os.path.abspath(home), ".nnimgr", "code")


class CodeStore:
    """Store of unpacked code, which downloads missing code from the server.

    ``manager``: path of manager.json, the file with the server's address. ``boot_id``: id of the machine's
    present boot, because code is checked for damage once per boot.
    """

    def __init__(self, folder: str, *, manager: str, boot_id: str, limit: int = LIMIT) -> None:
        self._folder = folder
        self._manager = manager
        self._boot_id = boot_id
        self._limit = limit
        self._turn = 0
        self._last: tuple[os.stat_result, list[Entry]] | None = None  # the list of entries that was read last

    @contextlib.contextmanager
    def held(self, sha256: str, size: int, say: Callable[[str], None]) -> Iterator[Tree]:
        """Context that yields the code with this hash, after a download if necessary.

        No keeper removes the code until the context ends. ``size``: bytes of the code's archive. ``say`` is
        called with a sentence when the caller has to wait. Raises OSError, BadArchive and the exceptions in
        ``connection.FAILURES``.
        """
        if not _HASH.fullmatch(sha256):
            raise CallFailed(f"the trial code has the name {sha256!r}, which is not a hash")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        lock = os.open(f"{self._folder}/{sha256}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take(lock, fcntl.LOCK_SH, say)
            entries = self._look(sha256)
            fetched = entries is None
            while entries is None:
                self._take(lock, fcntl.LOCK_EX, say)
                entries = self._look(sha256)
                if entries is None:
                    self._fetch(sha256, size, say)
                # Look again below: another keeper may remove the code before this keeper has the shared lock.
                fcntl.flock(lock, fcntl.LOCK_SH)
                entries = self._look(sha256)
            os.utime(lock)
            if fetched:
                self._make_room(keep=sha256)
            yield Tree(f"{self._folder}/{sha256}/tree", entries)
        finally:
            os.close(lock)

    @staticmethod
    def _take(lock: int, kind: int, say: Callable[[str], None]) -> None:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another keeper of this machine is fetching the trial code")
            fcntl.flock(lock, kind)

    def _look(self, sha256: str) -> list[Entry] | None:
        """Return the list of files of the code with this hash; None if the code is missing or damaged."""
        place = f"{self._folder}/{sha256}"
        try:
            found = os.stat(f"{place}/list")
            if self._last is None or not os.path.samestat(self._last[0], found):
                self._last = found, unpacked.read_list(f"{place}/list")
            entries = self._last[1]
        except (OSError, ValueError, TypeError):
            return None
        seen = f"{place}/boots/{self._boot_id}"
        if not os.path.exists(seen):
            if not unpacked.is_whole(f"{place}/tree", entries):
                return None
            _touch(seen)
        return entries

    def _fetch(self, sha256: str, size: int, say: Callable[[str], None]) -> None:
        part = f"{self._folder}/{sha256}.part"
        fresh = f"{self._folder}/{sha256}.new"
        disk.remove(fresh)
        disk.remove(f"{self._folder}/{sha256}")  # the code in this folder is damaged
        self._download(sha256, size, part, say)
        if _sha256(part) != sha256:
            os.unlink(part)
            raise CallFailed("the trial code has arrived damaged: its hash is wrong; it is fetched again")
        try:
            os.mkdir(fresh, 0o700)
            entries = unpacked.unpack(part, f"{fresh}/tree")
            unpacked.write_list(f"{fresh}/list", entries)
            os.mkdir(f"{fresh}/boots", 0o700)
            _touch(f"{fresh}/boots/{self._boot_id}")
            os.rename(fresh, f"{self._folder}/{sha256}")
        except BaseException:
            disk.remove(fresh)  # frees the space on a full disk
            raise
        os.unlink(part)

    def _download(self, sha256: str, size: int, part: str, say: Callable[[str], None]) -> None:
        """Download the code's archive into the file ``part``.

        Bytes that are already in the file are not sent again.
        """
        with open(part, "ab", buffering=0) as file:
            have = file.tell()
            if have > size:
                file.truncate(0)
                have = 0
            if have == size:
                return
            say(f"the trial code is being fetched ({_amount(size - have)})")
            try:
                server = connections.connect(self._manager, turn=self._turn, timeout_s=READ_S)
            except (OSError, CallFailed):
                self._turn += 1
                raise
            with contextlib.closing(server.connection):
                headers = {**server.headers, "Range": f"bytes={have}-"}
                answer = server.connection.request("GET", server.beside(f"code/{sha256}"), headers)
                if answer.status not in (200, 206):
                    raise connections.refusal(answer)
                if answer.status == 200:
                    file.truncate(0)
                    have = 0
                while have < size:
                    piece = answer.read(min(_PIECE, size - have))
                    if not piece:
                        raise CallFailed("the connection ended in the middle of the trial code")
                    disk.write_all(file.fileno(), piece)
                    have += len(piece)

    def _make_room(self, *, keep: str) -> None:
        """Remove the least recently used code that no keeper uses, until the store is smaller than its limit.

        The code with the hash ``keep`` is never removed.
        """
        found = []
        for name in os.listdir(self._folder):
            sha256, _, kind = name.partition(".")
            if kind == "lock" and sha256 != keep:
                with contextlib.suppress(OSError):
                    found.append((os.stat(f"{self._folder}/{name}").st_mtime, sha256))
        total = self._size(keep)
        now = time.time()
        for used_at, sha256 in sorted(found, reverse=True):
            size = self._size(sha256)
            total += size
            if (size and total > self._limit) or (not size and now - used_at > STALE_S):
                total -= size
                self._drop(sha256)

    def _size(self, sha256: str) -> int:
        """Return the total bytes of the files in the code with this hash; 0 if it is not in the store."""
        try:
            entries = unpacked.read_list(f"{self._folder}/{sha256}/list")
        except (OSError, ValueError, TypeError):
            return 0
        return sum(entry.size for entry in entries) + len(entries)

    def _drop(self, sha256: str) -> None:
        with contextlib.suppress(OSError):  # the code is in use, or was removed in the meantime
            lock = os.open(f"{self._folder}/{sha256}.lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Remove the list first: code without a list counts as missing, so nobody uses a part of it.
                for tail in ("/list", "", ".new", ".part"):
                    disk.remove(f"{self._folder}/{sha256}{tail}")
            finally:
                os.close(lock)


def _touch(path: str) -> None:
    with contextlib.suppress(OSError):  # without this mark, the code is checked again before its next use
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _sha256(path: str) -> str:
    # imported here, because keepers that download no code need neither the module nor its library
    import hashlib

    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while True:
            piece = file.read(_PIECE)
            if not piece:
                return found.hexdigest()
            found.update(piece)


def _amount(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
