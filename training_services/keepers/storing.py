"""Puts the server's copies of checkpoints into the storage that users have named, in the background.

The facts say which copies the storage has to have: those on the server's disk. After the opening, the storage
is read once. Then each copy is put there after the fact about it, and removed after the fact that nobody
needs it any more. So a server that was killed continues where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from training_services.base import CheckpointLost, CheckpointStored, JobEvent
from training_services.checkpoint_storage.copies import Found, Name, StoredCopies
from training_services.checkpoint_storage.files import StorageError, StorageFiles
from training_services.checkpoint_store import CheckpointStore, Damaged

__all__ = ["CLOSE_S", "Storing"]

logger = logging.getLogger(__name__)

AT_ONCE = 2  # most simultaneous transfers of an experiment
PAUSES_S = (1.0, 30.0)  # first and longest pause after a failed transfer
CLOSE_S = 30.0  # longest wait for transfers when the experiment ends
PROVIDE_S = 20.0  # longest time for which a keeper's request waits until the server has its copy again
END_S = 2.0  # longest wait for interrupted threads
T = TypeVar("T")


class Storing:
    """Transfers of one experiment's copies to its storage, and back if the server's disk has lost them.

    ``put`` passes events to the core. ``url`` names the storage in sentences.
    """

    def __init__(
        self,
        experiment_id: str,
        files: StorageFiles,
        store: CheckpointStore,
        *,
        url: str,
        put: Callable[[Sequence[JobEvent]], None],
    ) -> None:
        self._experiment_id, self._store, self._url, self._put = experiment_id, store, url, put
        self._closed = False
        self._copies = StoredCopies(experiment_id, files, store, lambda: self._closed)
        self._known: dict[str, set[int]] = {}  # job -> numbers of the copies that the storage has to have
        self._found: Found | None = None  # what the storage has; None: it was not read yet
        self._stale: set[Name] = set()  # incomplete copies that an earlier server has left
        self._todo: dict[Name, None] = {}  # copies that may have to be stored or removed, in their order
        self._busy: set[Name] = set()
        self._troubles: dict[Name | None, str] = {}  # by copy; None: the storage cannot be read
        self._tasks: list[asyncio.Task[None]] = []
        self._news, self._idle, self._hurry = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._providing: dict[Name, asyncio.Task[str | None]] = {}
        self._threads: set[asyncio.Future[Any]] = set()

    # ---- orders -------------------------------------------------------------------------------------------

    def begin(self, copies: Iterable[Name]) -> None:
        """Start to work. ``copies``: those that the facts name."""
        for name in copies:
            self.add(name)
        self._start(self._open())

    def add(self, name: Name) -> None:
        """Put this copy, which is on the server's disk, into the storage.

        It replaces a copy of the same checkpoint that the storage has, because that one was lost or damaged.
        """
        job_id, number = name
        self._known.setdefault(job_id, set()).add(number)
        if self._found is not None and name in self._found.begun:
            self._found.whole.discard(name)
            self._stale.add(name)
        self._order(name)

    def remove(self, job_id: str, up_to: int, *, keep: Collection[int]) -> None:
        """Remove the copies of the job's checkpoints up to a number from the storage, except ``keep``."""
        numbers = self._known.get(job_id, set())
        for number in sorted(numbers):
            if number <= up_to and number not in keep:
                numbers.discard(number)
                self._order((job_id, number))
        if not numbers:
            self._known.pop(job_id, None)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        def over(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._troubles[None] = f"an error of this program: {error!r}"
                logger.error("experiment %s: %s", self._experiment_id, self._url, exc_info=error)

        task = asyncio.create_task(work, name=f"{self._experiment_id}:storage")
        task.add_done_callback(over)
        self._tasks.append(task)

    def _order(self, name: Name) -> None:
        self._todo[name] = None
        self._idle.clear()
        self._news.set()

    def _wants(self, name: Name) -> bool:
        job_id, number = name
        return number in self._known.get(job_id, ())

    @property
    def notices(self) -> Mapping[str, str]:
        """Sentence about transfers that have failed and are tried again, if there are any."""
        if not self._troubles:
            return {}
        trouble = next(iter(self._troubles.values()))
        sentence = f"a transfer of checkpoints to {self._url} has failed and is tried again: {trouble}"
        return {"checkpoints.storage": sentence}

    # ---- end ----------------------------------------------------------------------------------------------

    async def drain(self, limit_s: float = CLOSE_S) -> str | None:
        """Wait until the storage has all copies. Return a sentence about what it lacks after ``limit_s``."""
        if not self._tasks:
            return None
        self._hurry.set()  # waiting lanes try again at once, and pause as usual after that
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._idle.wait()
                return None
        whole = set[Name]() if self._found is None else self._found.whole
        known = [(job_id, number) for job_id, numbers in self._known.items() for number in numbers]
        missing = sum(name not in whole for name in known)
        count = f"{missing} {'copy of a checkpoint' if missing == 1 else 'copies of checkpoints'}"
        old = "old copies of checkpoints could not be removed from"
        what = f"{count} could not be put into" if missing else old
        why = next(iter(self._troubles.values()), "the transfer takes longer")
        return f"{what} {self._url} within {limit_s:g} s: {why}"

    async def close(self) -> None:
        """End all transfers. They continue when the experiment is opened again."""
        self._closed = True
        tasks: list[asyncio.Task[Any]] = [*self._tasks, *self._providing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._threads:
            await asyncio.wait(self._threads, timeout=END_S)

    # ---- transfers to the storage -------------------------------------------------------------------------

    async def _open(self) -> None:
        """Read what the storage has, and begin to transfer."""
        pause = PAUSES_S[0]
        while self._found is None:
            try:
                self._found = await self._in_thread(self._copies.find)
            except (StorageError, OSError) as error:
                pause = await self._pause(None, error, pause)
        self._troubles.pop(None, None)
        self._stale = self._found.begun - self._found.whole
        for name in sorted(self._found.begun):
            if not self._wants(name):
                self._order(name)
            elif name in self._found.whole:
                self._report(name)
        for _ in range(AT_ONCE):
            self._start(self._work(self._found))

    async def _work(self, found: Found) -> None:
        """Store and remove copies, one after the other. ``found``: what the storage has, which is updated."""
        pause = PAUSES_S[0]
        while True:
            name = next((name for name in self._todo if name not in self._busy), None)
            if name is None:
                if not self._todo and not self._busy:
                    self._idle.set()
                self._news.clear()
                await self._news.wait()
                continue
            del self._todo[name]
            self._busy.add(name)
            try:
                await self._settle(found, name)
            except (StorageError, OSError) as error:
                pause = await self._pause(name, error, pause)
                self._todo[name] = None
            else:
                pause = PAUSES_S[0]
                self._troubles.pop(name, None)
            finally:
                self._busy.discard(name)
                self._news.set()  # the other lane may have left the copy to this one

    async def _pause(self, name: Name | None, error: Exception, pause: float) -> float:
        """Wait after a failed transfer. Return the length of the next pause."""
        sentence = str(error)
        if self._troubles.get(name) != sentence:
            logger.warning("experiment %s: %s: %s", self._experiment_id, self._url, sentence)
        self._troubles[name] = sentence
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._hurry.wait()
        return min(2 * pause, PAUSES_S[1])

    async def _settle(self, found: Found, name: Name) -> None:
        """Bring the storage into the state that the facts require for one copy."""
        if not self._wants(name):
            if name in found.begun:
                found.whole.discard(name)
                await self._in_thread(self._copies.remove, name)
                found.begun.discard(name)
                self._stale.discard(name)
            return
        if name in found.whole:
            return
        if name in self._stale:
            await self._in_thread(self._copies.remove, name)
            self._stale.discard(name)
        found.begun.add(name)
        try:
            await self._in_thread(self._copies.upload, name)
        except (FileNotFoundError, ValueError) as error:
            if self._wants(name):
                reason = f"the server's copy is missing or damaged: {error}"
                logger.warning("experiment %s: checkpoint %s: %s", self._experiment_id, name, reason)
                self._put([CheckpointLost(job_id=name[0], number=name[1], reason=reason)])
            return
        found.whole.add(name)
        if self._wants(name):
            self._report(name)

    def _report(self, name: Name) -> None:
        job_id, number = name
        self._put([CheckpointStored(job_id=job_id, number=number)])

    # ---- transfers from the storage -----------------------------------------------------------------------

    async def provide(self, job_id: str, number: int) -> str | None:
        """Check the copy on the server's disk, and fetch it from the storage if it is missing or damaged.

        Return a sentence if this takes longer, or has to be tried again. A copy that the storage lacks, too,
        is left as it is.
        """
        name = job_id, number
        task = self._providing.get(name)
        if task is None:
            task = asyncio.create_task(self._provide(name), name=f"{self._experiment_id}:{job_id}:provide")
            self._providing[name] = task
        await asyncio.wait({task}, timeout=PROVIDE_S)
        if not task.done():
            return f"the server checks its copy, or fetches it from {self._url}"
        if self._providing.get(name) is task:
            del self._providing[name]
        return "the server closes the experiment" if task.cancelled() else task.result()

    async def _provide(self, name: Name) -> str | None:
        try:
            await self._in_thread(self._store.check, *name)
            return None
        except (FileNotFoundError, ValueError) as error:
            logger.warning("experiment %s: copy of checkpoint %s: %s", self._experiment_id, name, error)
        except OSError as error:
            return f"the server cannot read its copy: {error}"
        about = self._experiment_id, name, self._url
        try:
            await self._in_thread(self._copies.restore, name)
        except (FileNotFoundError, Damaged) as error:
            logger.warning("experiment %s: checkpoint %s in %s: %s", *about, error)
        except (StorageError, OSError) as error:
            return f"the server cannot fetch its copy from {self._url}: {error}"
        return None

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread of its own, which does not keep the process from ending.

        A driver may wait for its network without end. So the thread is none of those that the server shares.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

        def run() -> None:
            outcome: tuple[T | None, BaseException | None]
            try:
                outcome = work(*arguments), None
            except BaseException as error:
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(ended.set_result, outcome)

        threading.Thread(target=run, name=f"{self._experiment_id}:storage", daemon=True).start()
        self._threads.add(ended)
        ended.add_done_callback(self._threads.discard)
        result, error = await asyncio.shield(ended)
        if error is not None:
            raise error
        return cast("T", result)
