"""The trials' code on this machine, shared by all its keepers: fetched once per content, kept for the next.

In ``$NNIMGR_HOME/.nnimgr/code`` (``~/nni-experiments`` without it) there is for each hash::

    <sha256>/tree     unpacked, and never changed; <sha256>/list says what is in it
    <sha256>/boots/   a file per boot in which the tree was seen whole
    <sha256>.part     what has arrived of the archive, to be gone on with
    <sha256>.lock     flock: held alone to fetch or remove, together to copy; its time is the last use
"""

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

if TYPE_CHECKING:
    from typing import Callable, Iterator

LIMIT = 10 << 30  # bytes of all contents together; the least recently used go first
STALE_S = 86_400.0  # so old, what was begun and left is not gone on with
READ_S = 30.0
_PIECE = 1 << 18
_HASH = re.compile("[0-9a-f]{64}")


class Tree(NamedTuple):
    """Code that is here: where, and what is in it."""

    path: str
    entries: list[Entry]


def default_folder() -> str:
    """The folder of this user's keepers on this machine."""
    home = os.environ.get("NNIMGR_HOME") or os.path.expanduser("~/nni-experiments")
    return os.path.join(os.path.abspath(home), ".nnimgr", "code")


class CodeStore:
    """What is here, and how to get what is not.

    ``manager``: the path of manager.json, which says where to fetch; ``boot_id``: of this machine.
    """

    def __init__(self, folder: str, *, manager: str, boot_id: str, limit: int = LIMIT) -> None:
        self._folder = folder
        self._manager = manager
        self._boot_id = boot_id
        self._limit = limit
        self._turn = 0
        self._last: tuple[os.stat_result, list[Entry]] | None = None  # the list that was read last

    @contextlib.contextmanager
    def held(self, sha256: str, size: int, say: Callable[[str], None]) -> Iterator[Tree]:
        """The code of this hash, fetched if need be; it stays until the block is left.

        ``size``: bytes of its archive; ``say`` takes a sentence about what is waited for. Raises OSError,
        BadArchive and what is in ``connection.FAILURES``.
        """
        if not _HASH.fullmatch(sha256):
            raise CallFailed(f"the trial code has the name {sha256!r}, which is no hash")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        lock = os.open(f"{self._folder}/{sha256}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            entries = self._look(sha256)
            fetched = entries is None
            while entries is None:
                self._take_alone(lock, say)
                entries = self._look(sha256)
                if entries is None:
                    self._fetch(sha256, size, say)
                fcntl.flock(lock, fcntl.LOCK_SH)  # somebody may remove it before this is ours
                entries = self._look(sha256)
            os.utime(lock)
            if fetched:
                self._make_room(keep=sha256)
            yield Tree(f"{self._folder}/{sha256}/tree", entries)
        finally:
            os.close(lock)

    @staticmethod
    def _take_alone(lock: int, say: Callable[[str], None]) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another keeper of this machine is fetching the trial code")
            fcntl.flock(lock, fcntl.LOCK_EX)

    def _look(self, sha256: str) -> list[Entry] | None:
        """What is in the tree, if it is there and whole."""
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
        unpacked.remove(fresh)
        unpacked.remove(f"{self._folder}/{sha256}")  # damaged
        self._download(sha256, size, part, say)
        if _sha256(part) != sha256:
            os.unlink(part)
            raise CallFailed(
                "the trial code has arrived damaged: its hash is another one; it is fetched again"
            )
        try:
            os.mkdir(fresh, 0o700)
            entries = unpacked.unpack(part, f"{fresh}/tree")
            unpacked.write_list(f"{fresh}/list", entries)
            os.mkdir(f"{fresh}/boots", 0o700)
            _touch(f"{fresh}/boots/{self._boot_id}")
            os.rename(fresh, f"{self._folder}/{sha256}")
        except BaseException:
            unpacked.remove(fresh)  # a full disk gets its room back
            raise
        os.unlink(part)

    def _download(self, sha256: str, size: int, part: str, say: Callable[[str], None]) -> None:
        """Bring ``part`` to its full size; what has arrived before is not fetched again."""
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
                    unpacked.write_all(file.fileno(), piece)
                    have += len(piece)

    def _make_room(self, *, keep: str) -> None:
        """Remove what was used longest ago, and is not in use, while there is too much."""
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
        """Bytes of the files in this content; 0: it is not here."""
        try:
            entries = unpacked.read_list(f"{self._folder}/{sha256}/list")
        except (OSError, ValueError, TypeError):
            return 0
        return sum(entry.size for entry in entries) + len(entries)

    def _drop(self, sha256: str) -> None:
        with contextlib.suppress(OSError):  # in use, or gone
            lock = os.open(f"{self._folder}/{sha256}.lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for tail in ("/list", "", ".new", ".part"):  # without its list it is not there
                    unpacked.remove(f"{self._folder}/{sha256}{tail}")
            finally:
                os.close(lock)


def _touch(path: str) -> None:
    with contextlib.suppress(OSError):  # it is looked at once more, then
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _sha256(path: str) -> str:
    import hashlib  # keepers that fetch no code do without it and its library

    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while True:
            piece = file.read(_PIECE)
            if not piece:
                return found.hexdigest()
            found.update(piece)


def _amount(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
