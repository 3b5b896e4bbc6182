"""Creates a copy of the trial code for each attempt before its start, and removes the copy after its end.

One thread does all the work, in order; the keeper's loop only gives orders and gets reports. The folder
``<keeper>/copies`` has one file per copy, so that the next keeper can remove the copy. It also has one file
per version of the code, which lists the files of this version.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import time

from trial_keeper.calls import connection as connections
from trial_keeper.code import unpacked
from trial_keeper.code.store import CodeStore, Tree
from trial_keeper.lean import TYPE_CHECKING, NamedTuple
from trial_keeper.machine import disk

if TYPE_CHECKING:
    from typing import Callable, Iterable

    from trial_keeper.wire import CodeArchive

FOLDER = "code"  # name of the copy, in the attempt's directory
SPARES = 16  # most unchanged copies of ended attempts that are kept for other attempts
SPARE_ENTRIES = 2000  # most files and folders in all kept copies together
FIRST_PAUSE_S = 0.5
LAST_PAUSE_S = 5.0

Failures = (*connections.FAILURES, unpacked.BadArchive)


class Wanted(NamedTuple):
    """Attempt that waits for a copy of its code. ``directory``: the folder in which the copy is created."""

    job: str
    directory: str
    sha256: str
    size: int


class Copies:
    """Creator and remover of the attempts' code copies.

    ``keeper``: the keeper's folder. The thread calls ``told(job, sentence)``: the sentence explains why the
    attempt waits for its copy; None means that the copy is ready.
    """

    def __init__(self, keeper: str, store: CodeStore, told: Callable[[str, str | None], None]) -> None:
        self._notes = f"{keeper}/copies"
        self._store = store
        self._told = told
        self._made: set[str] = set()
        self._known: set[str] = set()  # jobs that have a file in the folder ``copies``
        self._listed: set[str] = set()  # hashes of the code whose list of files was written
        self._said: dict[str, str] = {}  # hash of the code that attempts wait for -> reported sentence
        self._stamps: dict[str, int] = {}  # job -> time at which this keeper created its copy
        self._spares: list[tuple[str, str, int]] = []  # hash of the code, path and time of each kept copy
        self._change = threading.Condition()
        self._wanted: dict[str, Wanted] = {}
        self._ended: collections.deque[str] = collections.deque()
        self._thread: threading.Thread | None = None

    def begin(self, live: Iterable[str]) -> None:
        """Remove the copies that earlier keepers made for attempts that have ended."""
        with contextlib.suppress(OSError):
            self._known = {name for name in os.listdir(self._notes) if name.count("-") >= 2}
        for job in self._known.difference(live):
            self.end(job)

    def close(self) -> None:
        """Remove the copies of ended attempts that were kept for reuse, because the keeper exits."""
        with contextlib.suppress(OSError):
            disk.remove(f"{self._notes}/spares")

    def has(self, job: str) -> bool:
        """Return whether the copy of the code for this attempt is ready."""
        return job in self._made

    def want(self, job: str, directory: str, code: CodeArchive) -> None:
        """Order a copy of the code for this attempt. ``code``: the field ``code`` of the start command."""
        with self._change:
            self._known.add(job)
            self._wanted.setdefault(job, Wanted(job, directory, code["sha256"], code["size"]))
            self._wake()
        if code["sha256"] in self._said:
            self._told(job, self._said[code["sha256"]])

    def end(self, job: str) -> None:
        """Cancel or remove the copy, because the attempt was sealed or never started."""
        if job not in self._known:
            return
        self._known.discard(job)
        self._made.discard(job)
        with self._change:
            self._wanted.pop(job, None)
            self._ended.append(job)
            self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="code", daemon=True)
            self._thread.start()
        self._change.notify()

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        # Remove the copies that an earlier keeper kept for reuse and could not remove, because it was killed.
        with contextlib.suppress(OSError):
            disk.remove(f"{self._notes}/spares")
        while True:
            with self._change:
                while not (self._wanted or self._ended):
                    self._change.wait()
                wanted = list(self._wanted.values())
                # removals and creations alternate, so that neither waits for all the others
                number = min(len(self._ended), max(1, len(wanted)))
                ended = [self._ended.popleft() for _ in range(number)]
            failed = [self._make_all(sha256, wanted) for sha256 in dict.fromkeys(w.sha256 for w in wanted)]
            for job in ended:
                self._take_away(job)
            if not any(failed):
                pause = FIRST_PAUSE_S
                continue
            self._rest(pause, {want.job for want in wanted})
            pause = min(LAST_PAUSE_S, pause * 2)

    def _rest(self, pause: float, tried: set[str]) -> None:
        """Pause before failed copies are retried; in the meantime remove the copies of ended attempts."""
        until = time.monotonic() + pause
        while True:
            with self._change:
                while not self._ended and tried.issuperset(self._wanted):
                    left = until - time.monotonic()
                    if left <= 0:
                        return
                    self._change.wait(left)
                if not self._ended:
                    return
                ended = self._ended.popleft()
            self._take_away(ended)

    def _make_all(self, sha256: str, wanted: list[Wanted]) -> bool:
        """Create all wanted copies of the code with this hash.

        Return True if this failed and must be retried.
        """
        mine = [want for want in wanted if want.sha256 == sha256]

        def say(sentence: str) -> None:
            self._said[sha256] = f"the attempt waits for its code: {sentence}"
            for want in mine:
                if want.job in self._wanted:
                    self._told(want.job, self._said[sha256])

        try:
            with self._store.held(sha256, mine[0].size, say) as tree:
                for want in mine:
                    if want.job in self._wanted:
                        self._make(want, tree)
                        self._finish(want.job)
        except Failures as error:
            say(_sentence(error))
            return True
        self._said.pop(sha256, None)
        return False

    def _make(self, want: Wanted, tree: Tree) -> None:
        os.makedirs(self._notes, exist_ok=True)
        # each keeper writes the list again, because the existing list may have lost data in a power loss
        if want.sha256 not in self._listed:
            unpacked.write_list(f"{self._notes}/{want.sha256}", tree.entries)
            self._listed.add(want.sha256)
        with open(f"{self._notes}/{want.job}", "w", encoding="utf-8", errors="surrogateescape") as note:
            note.write(f"{want.sha256} {want.directory}")
        os.makedirs(want.directory, exist_ok=True)
        target = f"{want.directory}/{FOLDER}"
        if os.path.isdir(target):  # an earlier keeper has created the copy
            return
        for spare in self._spares:
            if spare[0] == want.sha256:
                self._spares.remove(spare)
                os.rename(spare[1], target)
                self._stamps[want.job] = spare[2]
                return
        unpacked.copy(tree.path, tree.entries, target)
        self._stamps[want.job] = unpacked.stamp(target)

    def _finish(self, job: str) -> None:
        with self._change:
            if self._wanted.pop(job, None) is None:  # the attempt has ended in the meantime
                return
            self._made.add(job)
        self._told(job, None)

    def _take_away(self, job: str) -> None:
        note = f"{self._notes}/{job}"
        try:
            with open(note, encoding="utf-8", errors="surrogateescape") as file:
                sha256, _, directory = file.read().partition(" ")
            if directory:
                entries = unpacked.read_list(f"{self._notes}/{sha256}")
                stamp = self._stamps.pop(job, None)
                if stamp is None or not self._spare(job, sha256, f"{directory}/{FOLDER}", entries, stamp):
                    disk.remove(f"{directory}/{FOLDER}.new")
                    unpacked.take_away(directory, FOLDER, entries, stamped=stamp)
            os.unlink(note)
        except (OSError, ValueError, TypeError):
            return  # nothing was created, or the next keeper will retry

    def _spare(self, job: str, sha256: str, copy: str, entries: list[unpacked.Entry], stamp: int) -> bool:
        """Keep an ended attempt's copy for reuse by another attempt. Return False if that is not possible.

        The copy is kept only if the ended attempt has changed nothing in it and not too many copies are kept.
        """
        number = len(self._spares)
        if number >= SPARES or (number + 1) * len(entries) > SPARE_ENTRIES:
            return False
        if not unpacked.is_untouched(copy, entries, stamp):
            return False
        path = f"{self._notes}/spares/{job}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(copy, path)
        self._spares.append((sha256, path, stamp))
        return True


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}"
    return str(error) or type(error).__name__
