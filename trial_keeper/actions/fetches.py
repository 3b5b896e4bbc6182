"""Fetches checkpoints from the server, from which attempts on this machine continue.

Each checkpoint is fetched once into ``<keeper>/origins/<boot>/<digest>/files``, and is kept as long as an
attempt uses it. Nothing is flushed to disk, so that what an earlier boot has fetched is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading

from trial_keeper.calls import connection as connections
from trial_keeper.calls.connection import CallFailed
from trial_keeper.checkpoints import contents
from trial_keeper.checkpoints.incoming import FILES, Damaged, Incoming
from trial_keeper.lean import TYPE_CHECKING
from trial_keeper.machine.disk import remove

if TYPE_CHECKING:
    from typing import Callable, Iterable

    from trial_keeper.calls.connection import Answer
    from trial_keeper.wire import KeptCopy

THREADS = 2
READ_S = 30.0
FIRST_PAUSE_S = 0.5
LAST_PAUSE_S = 5.0
NOT_FOUND = 404
_MANIFEST_LIMIT = 32 << 20
_HEX = frozenset("0123456789abcdef")


class Missing(Exception):
    """Error: the server's copy of a checkpoint is missing or damaged. The text is a sentence about it."""


class Fetches:
    """Checkpoints that this keeper has fetched, or is fetching, for its attempts.

    ``keeper``: the keeper's folder. ``manager``: path of manager.json, the file with the server's address.
    The threads call ``told(job, sentence)``: the sentence explains why the attempt waits for its checkpoint;
    None means that the checkpoint is there. ``missing(job, sentence)`` is called if it cannot be fetched.
    """

    def __init__(
        self,
        keeper: str,
        *,
        manager: str,
        boot_id: str,
        told: Callable[[str, str | None], None],
        missing: Callable[[str, str], None],
    ) -> None:
        self._root = f"{keeper}/origins"
        self._folder = f"{self._root}/{boot_id}"
        self._manager = manager
        self._told, self._missing = told, missing
        self._change = threading.Condition()
        self._waiting: dict[str, tuple[KeptCopy, list[str]]] = {}  # digest -> copy, and jobs that wait for it
        self._busy: set[str] = set()  # digests that are being fetched
        self._users: dict[str, set[str]] = {}  # digest of a fetched checkpoint -> jobs that use it
        self._threads = 0
        self._turn = 0

    def begin(self, live: Iterable[str]) -> None:
        """Take over what an earlier keeper has fetched for live attempts, and remove everything else."""
        jobs = set(live)
        for boot in _names(self._root):
            if f"{self._root}/{boot}" != self._folder:
                _discard(f"{self._root}/{boot}")
        for name in _names(self._folder):
            used = jobs.intersection(_names(f"{self._folder}/{name}/jobs"))
            if used:
                self._users[name] = used
            elif not name.endswith(".part"):
                _discard(f"{self._folder}/{name}")

    def ready(self, job: str, kept: KeptCopy) -> str | None:
        """Return the path of the checkpoint's files if it was fetched for this attempt; else None."""
        used = job in self._users.get(kept["digest"], ())
        return f"{self._folder}/{kept['digest']}/{FILES}" if used else None

    def want(self, job: str, kept: KeptCopy) -> None:
        """Order the checkpoint to be fetched for this attempt."""
        with self._change:
            jobs = self._waiting.setdefault(kept["digest"], (kept, []))[1]
            if job not in jobs:
                jobs.append(job)
            if self._threads < min(THREADS, len(self._waiting)):
                self._threads += 1
                threading.Thread(target=self._run, name="fetch", daemon=True).start()
            self._change.notify()

    def end(self, job: str) -> None:
        """Cancel what the attempt waits for, and remove what only this attempt has used."""
        with self._change:
            for digest, (_, jobs) in list(self._waiting.items()):
                if job in jobs:
                    jobs.remove(job)
                    if not jobs:
                        del self._waiting[digest]
            unused = [digest for digest, users in self._users.items() if users == {job}]
            for users in self._users.values():
                users.discard(job)
            for digest in unused:
                del self._users[digest]
                with contextlib.suppress(OSError):  # at once, because the checkpoint may be fetched again
                    os.rename(f"{self._folder}/{digest}", f"{self._folder}/{digest}.gone")
        for digest in unused:
            threading.Thread(target=_discard, args=(f"{self._folder}/{digest}.gone",), daemon=True).start()

    # -- the threads

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            with self._change:
                while not (free := [digest for digest in self._waiting if digest not in self._busy]):
                    self._change.wait()
                kept, jobs = self._waiting[free[0]]
                self._busy.add(kept["digest"])
            try:
                self._serve(kept, jobs)
                pause = FIRST_PAUSE_S
            except (*connections.FAILURES, Damaged) as error:
                self._say(jobs, f"the attempt waits for its checkpoint: {_sentence(error)}")
                with self._change:
                    self._change.wait(pause)
                pause = min(LAST_PAUSE_S, pause * 2)
            finally:
                with self._change:
                    self._busy.discard(kept["digest"])
                    self._change.notify_all()

    def _serve(self, kept: KeptCopy, jobs: list[str]) -> None:
        place = f"{self._folder}/{kept['digest']}"
        try:
            if not os.path.isdir(place):
                self._fetch(kept, place, lambda sentence: self._say(jobs, sentence))
        except Missing as missing:
            with self._change:
                self._waiting.pop(kept["digest"], None)
                lost = list(jobs)
            for job in lost:
                self._missing(job, str(missing))
            return
        os.makedirs(f"{place}/jobs", exist_ok=True)
        with self._change:
            self._waiting.pop(kept["digest"], None)
            ready = list(jobs)
            for job in ready:
                with open(f"{place}/jobs/{job}", "wb"):  # for the next keeper
                    self._users.setdefault(kept["digest"], set()).add(job)
        for job in ready:
            self._told(job, None)

    def _say(self, jobs: list[str], sentence: str) -> None:
        for job in list(jobs):
            self._told(job, sentence)

    def _fetch(self, kept: KeptCopy, place: str, say: Callable[[str], None]) -> None:
        if not _HEX.issuperset(kept["digest"]):
            raise CallFailed("the checkpoint has a digest that is not a hash")
        manifest = self._manifest(kept)
        if hashlib.sha256(manifest).hexdigest() != kept["digest"]:
            raise Missing(f"the server's copy of {_name(kept)} is damaged: the hash of its manifest is wrong")
        entries, hashes = contents.read_manifest(manifest)
        os.makedirs(self._folder, 0o700, exist_ok=True)
        for last in (False, True):
            incoming = Incoming(f"{place}.part", entries)
            try:
                self._receive(kept, incoming, say)
                incoming.finish(hashes, durable=False)
                break
            except Damaged as error:
                remove(f"{place}.part")
                if last:
                    raise Missing(f"the server's copy of {_name(kept)} is damaged: {error}") from error
            finally:
                incoming.close()
        os.rename(f"{place}.part", place)

    def _manifest(self, kept: KeptCopy) -> bytes:
        with contextlib.closing(self._connect()) as server:
            answer = self._get(server, kept, "manifest", 0)
            return answer.read(_MANIFEST_LIMIT)

    def _receive(self, kept: KeptCopy, incoming: Incoming, say: Callable[[str], None]) -> None:
        left = incoming.size - incoming.offset
        if not left:
            return
        say(f"the checkpoint is being fetched from the server ({left / (1 << 20):.1f} MiB)")
        with contextlib.closing(self._connect()) as server:
            answer = self._get(server, kept, "content", incoming.offset)
            while left > 0:
                piece = answer.read(min(contents.PIECE, left))
                if not piece:
                    raise CallFailed("the connection ended in the middle of the checkpoint")
                incoming.write(piece)
                left -= len(piece)

    def _connect(self) -> _Server:
        try:
            return _Server(self._manager, self._turn)
        except (OSError, CallFailed):
            self._turn += 1
            raise

    @staticmethod
    def _get(server: _Server, kept: KeptCopy, what: str, offset: int) -> Answer:
        answer = server.get(f"checkpoints/{kept['job']}/{kept['number']}/{what}", offset)
        if answer.status == NOT_FOUND:
            raise Missing(f"{_name(kept)} cannot be fetched: {connections.refusal(answer)}")
        if answer.status not in (200, 206):
            raise connections.refusal(answer)
        return answer


def beside_server(path: str, kept: KeptCopy) -> str:
    """Return the folder with the files of the server's copy at ``path``, on the server's own machine.

    Raises FileNotFoundError with a sentence if the copy is missing or incomplete.
    """
    try:
        with open(f"{path}/{contents.MANIFEST}", "rb") as file:
            manifest = file.read()
        if hashlib.sha256(manifest).hexdigest() != kept["digest"]:
            raise ValueError("its manifest has another hash")
        contents.check_sizes(f"{path}/{FILES}", contents.read_manifest(manifest)[0])
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            f"the server's copy of {_name(kept)} cannot be used: {_sentence(error)}"
        ) from error
    return f"{path}/{FILES}"


class _Server:
    """Connection to the server for one call."""

    def __init__(self, manager: str, turn: int) -> None:
        self._server = connections.connect(manager, turn=turn, timeout_s=READ_S)

    def get(self, path: str, offset: int) -> Answer:
        headers = {**self._server.headers, "Range": f"bytes={offset}-"}
        return self._server.connection.request("GET", self._server.beside(path), headers)

    def close(self) -> None:
        self._server.connection.close()


def _name(kept: KeptCopy) -> str:
    return f"checkpoint {kept['number']} of {kept['job']}"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _discard(path: str) -> None:
    with contextlib.suppress(OSError):  # the next keeper tries again
        remove(path)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    return str(error) or type(error).__name__
