"""Copies the newest checkpoint of each trial from its host to the server, in the background.

A copy is needed before its host is: then the trial continues elsewhere. So nothing is copied from the
server's own machine, which is lost only together with the copies, unless the experiment stops using it, or
puts its copies into a storage.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from training_services.base import (
    CheckpointKeepBegun,
    CheckpointKept,
    JobEvent,
    JobNoted,
    Origin,
    ServiceError,
    origin_id,
)
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers.host import attempt_folder
from training_services.keepers.receiving import in_thread, receive_checkpoint
from training_services.keepers.seat import KeeperSeat
from training_services.keepers.wanted import NeededHosts, UncommittedCopies, Wanted
from trial_keeper.actions.files import CHECKPOINTS

__all__ = ["Keeping", "Sides", "Transfers"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

PER_KEEPER, PER_SERVER = 2, 4  # most simultaneous transfers
LAST_S = 30.0  # as LEAVE_S, when the experiment ends
PAUSES_S = (1.0, 30.0)  # first and longest pause after a failed transfer
LEAVE_S = 300.0  # a host that is to leave waits at most this long without progress of its transfers


class Sides(NamedTuple):
    """Functions of a training service for the copies of its checkpoints (see ``Keeping``)."""

    seat: Callable[[str], KeeperSeat | None]
    put: Callable[[Sequence[JobEvent]], None]
    settled: Callable[[KeeperSeat], None]


@dataclass(slots=True)
class Transfers:
    """Limit of the transfers of all experiments of a server."""

    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PER_SERVER))

    def copying(self, sides: Sides, make: Callable[[Sides], T]) -> T:
        """Return what copies the checkpoints of a service. Services of one experiment may share it."""
        return make(sides)


class _Removals:
    """Tasks that remove copies. Errors are logged. ``running``: the tasks that have not ended."""

    def __init__(self, experiment_id: str, store: CheckpointStore) -> None:
        self._experiment_id, self._store = experiment_id, store
        self.running: set[asyncio.Task[None]] = set()
        self._first: asyncio.Task[None] | None = None
        self._clearing: dict[str, asyncio.Task[None]] = {}  # by trial

    def tidy(self, known: Collection[tuple[str, int]], wanted: Collection[tuple[str, int]]) -> None:
        """Remove everything but these copies and these unfinished transfers."""
        self._first = self._start(in_thread(self._store.tidy, known, wanted))

    def remove(self, job_id: str, up_to: int, keep: Iterable[int]) -> None:
        """Remove the copies of the job's checkpoints up to a number, except those in ``keep``."""
        self._start(in_thread(self._store.remove, job_id, up_to, set(keep)))

    def clear(self, trial_id: str, copied: Wanted | None, task: asyncio.Task[None] | None) -> None:
        """Remove what the trial's canceled transfers have left, after their task has ended.

        ``copied``: what the task copied when it was canceled. That copy may be whole, if a thread has
        completed it. No fact has named it.
        """
        clearing = self._start(self._clear(trial_id, copied, task))
        self._clearing[trial_id] = clearing

        def over(_: object) -> None:
            if self._clearing.get(trial_id) is clearing:
                del self._clearing[trial_id]

        clearing.add_done_callback(over)

    async def wait(self, trial_id: str) -> None:
        """Wait for the removals before which no transfer of the trial may begin."""
        before = {each for each in (self._clearing.get(trial_id), self._first) if each is not None}
        if before:
            await asyncio.wait(before)

    async def _clear(self, trial_id: str, copied: Wanted | None, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            await asyncio.wait({task})
        await in_thread(self._store.drop_parts, trial_id)
        if copied is not None:
            job_id, number = copied.name
            await in_thread(self._store.remove, job_id, number, set(range(number)))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{self._experiment_id}:copies")
        self.running.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("experiment %s: copies of checkpoints: %s", self._experiment_id, error)


class Keeping:
    """Transfers of one experiment's checkpoints to its store.

    ``seat`` returns the seat of a keeper, or None if the experiment has no such host any more. ``put`` passes
    events to the core. ``settled`` is called when nothing waits to be copied from a leaving host any more.
    ``stores``: the copies are put into a storage. ``uncommitted``: copies whose facts are not committed yet.
    """

    def __init__(
        self,
        experiment_id: str,
        store: CheckpointStore,
        transfers: Transfers,
        *,
        seat: Callable[[str], KeeperSeat | None],
        put: Callable[[Sequence[JobEvent]], None],
        settled: Callable[[KeeperSeat], None],
        stores: bool = False,
    ) -> None:
        self._experiment_id, self._store, self._transfers = experiment_id, store, transfers
        self._seat, self._put, self._settled, self._stores = seat, put, settled, stores
        self._wanted: dict[str, Wanted] = {}  # by trial
        self._needed = NeededHosts()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by trial
        self._slots: dict[str, asyncio.Semaphore] = {}  # by keeper
        self._news: dict[str, asyncio.Event] = {}  # by trial: wakes its task
        self._copying: dict[str, Wanted] = {}  # by trial: what its task copies at present
        self._spared: dict[str, Origin] = {}  # by trial: checkpoint on the server's machine: not copied
        self._leaving: dict[str, float] = {}  # keeper of a host that leaves -> longest wait without progress
        self.uncommitted = UncommittedCopies()
        self._removals = _Removals(experiment_id, store)

    # ---- orders -------------------------------------------------------------------------------------------

    def begin(self, copies: Iterable[tuple[str, int]]) -> None:
        """Remove everything from the store that is neither a known copy nor to be transferred."""
        self._removals.tidy(set(copies), [each.name for each in self._wanted.values()])

    def want(self, trial_id: str, origin: Origin | None) -> None:
        """Copy this checkpoint; None: nothing of the trial. It replaces an earlier order for the trial."""
        self._spared.pop(trial_id, None)
        if origin is None:
            self._drop(trial_id)
            # The fact about a copy may be part of the same commit, which ``committed`` reports next.
            asyncio.get_running_loop().call_soon(lambda: self._forget(self.uncommitted.pop(trial_id)))
            return
        known = self._wanted.get(trial_id)
        job_id, _ = origin_id(f"{self._experiment_id}-{trial_id}-0", trial_id, origin)
        name = job_id, origin.number
        copied = self.uncommitted.of(trial_id)
        if (known is not None and known.name == name) or name in [each.name for each in copied]:
            return
        for each in copied:
            if each.age > (origin.attempt, origin.number):  # the trial has gone back: its host is of no use
                self._release(each)
        seat = self._seat(origin.keeper_id)
        beside = seat is not None and seat.keeper_host.beside_server and not self._stores
        if beside and origin.keeper_id not in self._leaving:
            self._spared[trial_id] = origin
            return
        wanted = self._wanted[trial_id] = Wanted(job_id, origin, asyncio.get_running_loop().time())
        self._needed.add(wanted)
        if known is not None:
            self._release(known)
        self._wake(trial_id)

    def committed(self, fact: CheckpointKept) -> None:
        """Record that the fact about a copy is committed.

        Facts are recorded in order. So earlier copies of the trial whose facts are not committed by now were
        not recorded, because nobody needs them.
        """
        if copies := self.uncommitted.take((fact.job_id, fact.number)):
            self._forget(copies[:-1])
            self._release(copies[-1])

    def remove(self, job_id: str, up_to: int, *, keep: Iterable[int]) -> None:
        """Remove the copies of the job's checkpoints up to a number, except those in ``keep``."""
        self._removals.remove(job_id, up_to, keep)

    def heard(self, keeper_id: str) -> None:
        """Continue transfers that have failed: the keeper calls again."""
        for trial_id, wanted in self._wanted.items():
            if wanted.origin.keeper_id == keeper_id:
                self._wake(trial_id)

    def leave(self, keeper_id: str, limit_s: float = LEAVE_S) -> None:
        """Let the host leave when nothing waits to be copied from it any more (see ``awaits``).

        What has made no progress for ``limit_s`` is reported as lost.
        """
        if keeper_id in self._leaving:
            return
        self._leaving[keeper_id] = limit_s
        for trial_id, origin in list(self._spared.items()):
            if origin.keeper_id == keeper_id:
                self.want(trial_id, origin)
        for wanted in self._wanted.values():
            wanted.move()
        self.heard(keeper_id)

    def stay(self, keeper_id: str) -> None:
        """Take back ``leave``, because the host is used again."""
        self._leaving.pop(keeper_id, None)

    def awaits(self, keeper_id: str) -> bool:
        """Return True if a checkpoint waits to be copied from the host, or its copy to be committed."""
        return keeper_id in self._needed

    def vanished(self, seat: KeeperSeat, reason: str) -> None:
        """Report as lost what was not copied from a host that has ended for this reason."""
        for trial_id, wanted in list(self._wanted.items()):
            if wanted.origin.keeper_id == seat.id:
                sentence = f"it was not copied to the server before {seat.host.name} ended: {reason}"
                self._put([wanted.lost(sentence)])
                self._drop(trial_id)

    async def drain(self, keeper_ids: Iterable[str]) -> None:
        """Wait until nothing is to be copied from these hosts, whose files are about to be removed."""
        hosts = set(keeper_ids)
        for keeper_id in hosts:
            self.leave(keeper_id, LAST_S)
        while tasks := [
            self._tasks[trial_id]
            for trial_id, wanted in self._wanted.items()
            if wanted.origin.keeper_id in hosts and trial_id in self._tasks
        ]:
            await asyncio.wait(tasks)
        if self._stores and self._tasks:  # what other hosts have is put into the storage, too
            await asyncio.wait(list(self._tasks.values()), timeout=LAST_S)

    async def close(self) -> None:
        """End all transfers. Interrupted ones continue when the experiment is opened again."""
        tasks = [*self._tasks.values(), *self._removals.running]
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def notices(self) -> Mapping[str, str]:
        """Sentences about transfers that have failed and are tried again, by trial."""
        return {
            f"checkpoint of {trial_id}": wanted.notice(trial_id)
            for trial_id, wanted in self._wanted.items()
            if wanted.trouble is not None
        }

    # ---- transfers ----------------------------------------------------------------------------------------

    def _wake(self, trial_id: str) -> None:
        if trial_id in self._news:
            self._news[trial_id].set()
            return
        self._news[trial_id] = asyncio.Event()
        task = asyncio.create_task(self._keep(trial_id), name=f"{self._experiment_id}:{trial_id}:keep")
        self._tasks[trial_id] = task

        def over(_: object) -> None:
            if self._tasks.get(trial_id) is task:
                del self._tasks[trial_id], self._news[trial_id]
            if task.cancelled():
                return
            if (error := task.exception()) is not None:  # tried again when the keeper calls again
                name = self._experiment_id
                logger.error("experiment %s: copies of trial %s have failed", name, trial_id, exc_info=error)
            elif trial_id in self._wanted:
                self._wake(trial_id)

        task.add_done_callback(over)

    def _drop(self, trial_id: str) -> None:
        """Copy nothing of the trial any more."""
        wanted = self._wanted.pop(trial_id, None)
        if (task := self._tasks.pop(trial_id, None)) is not None:
            del self._news[trial_id]
            task.cancel()
        if task is not None or wanted is not None:
            self._removals.clear(trial_id, self._copying.get(trial_id), task)
        if wanted is not None:
            self._release(wanted)

    def _finish(self, trial_id: str, wanted: Wanted, *events: JobEvent) -> None:
        """Report the result of a transfer. A newer checkpoint of the trial may wait already.

        The same checkpoint may have been ordered again meanwhile, after an order for another one.
        """
        ordered = self._wanted.get(trial_id)
        if ordered is not None and ordered.name == wanted.name:
            del self._wanted[trial_id]
        self._put(events)
        if wanted not in self.uncommitted.of(trial_id):  # else its host stays until the fact is committed
            self._release(wanted)

    def _release(self, wanted: Wanted) -> None:
        """Let the host of the checkpoint leave, unless others are needed from there."""
        seat = self._seat(wanted.origin.keeper_id)
        if self._needed.discard(wanted) and seat is not None:
            # only after all orders of this turn: the next one may be for another checkpoint of the host
            asyncio.get_running_loop().call_soon(self._released, seat)

    def _released(self, seat: KeeperSeat) -> None:
        if self._seat(seat.id) is seat and not self.awaits(seat.id):
            seat.desk.flush()
            if seat.id in self._leaving:
                self._settled(seat)

    async def _keep(self, trial_id: str) -> None:
        """Copy what is wanted of the trial, until nothing is."""
        await self._removals.wait(trial_id)
        pause, longest = PAUSES_S
        while (wanted := self._wanted.get(trial_id)) is not None:
            keeper_id = wanted.origin.keeper_id
            seat, news = self._seat(keeper_id), self._news[trial_id]
            if seat is None:
                await self._give_up(trial_id, wanted, "its machine is no longer used")
                continue
            if (why := self._expired(wanted)) is not None:
                await self._give_up(trial_id, wanted, f"it could not be copied from {seat.host.name}: {why}")
                continue
            news.clear()
            trouble = seat.absence()
            if trouble is None:
                slots = self._slots.setdefault(keeper_id, asyncio.Semaphore(PER_KEEPER))
                async with slots, self._transfers.slots:
                    wanted = self._wanted.get(trial_id)  # a newer one may have come meanwhile
                    if wanted is None or wanted.origin.keeper_id != keeper_id:
                        continue
                    trouble = await self._try(trial_id, wanted, seat)
            if trouble is None:
                pause = PAUSES_S[0]
                continue
            if self._wanted.get(trial_id) is wanted:
                if trouble != wanted.trouble:
                    name = self._experiment_id
                    logger.warning("experiment %s: checkpoint %s: %s", name, wanted.name, trouble)
                wanted.trouble = trouble
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(pause, self._time_left(wanted))):
                        await news.wait()
                pause = min(2 * pause, longest)
            if self._wanted.get(trial_id) is not wanted:
                await in_thread(self._store.drop_parts, trial_id)

    def _time_left(self, wanted: Wanted) -> float:
        """Return the seconds for which the host of the checkpoint waits without any progress."""
        limit = self._leaving.get(wanted.origin.keeper_id)
        if limit is None:
            return PAUSES_S[1]
        return max(0.0, wanted.moved_at + limit - asyncio.get_running_loop().time())

    def _expired(self, wanted: Wanted) -> str | None:
        """Return why nothing was copied from a leaving host for too long, or None."""
        if wanted.origin.keeper_id not in self._leaving or self._time_left(wanted) > 0:
            return None
        return wanted.trouble or "other transfers have taken too long"

    async def _give_up(self, trial_id: str, wanted: Wanted, reason: str) -> None:
        self._finish(trial_id, wanted, wanted.lost(reason))
        await in_thread(self._store.drop_parts, trial_id)

    async def _try(self, trial_id: str, wanted: Wanted, seat: KeeperSeat) -> str | None:
        """Copy the checkpoint and report the result. Return a sentence if it has to be tried again."""
        job_id, number = wanted.name
        self._put([CheckpointKeepBegun(job_id=job_id, number=number)])
        self._copying[trial_id] = wanted
        parts = (*attempt_folder(trial_id, wanted.origin.attempt), CHECKPOINTS, str(number))
        try:
            kept = await receive_checkpoint(
                self._store, seat.desk, job_id, number, parts, size=wanted.origin.size, moved=wanted.move
            )
        except FileNotFoundError as error:
            sentence = f"its files on {seat.host.name} are missing or damaged: {error}"
            await self._give_up(trial_id, wanted, sentence)
        except ValueError as error:
            sentence = f"it cannot be copied to the server: {error}"
            if seat.id in self._leaving:
                await self._give_up(trial_id, wanted, sentence)
            else:
                note = JobNoted(
                    job_id=job_id, note=f"checkpoint {number} stays on {seat.host.name}: {sentence}"
                )
                self._finish(trial_id, wanted, note)
                await in_thread(self._store.drop_parts, trial_id)
        except ServiceError as error:
            return str(error)
        else:
            self.uncommitted.add(trial_id, wanted)
            fact = CheckpointKept(job_id=job_id, number=number, digest=kept.digest, size=kept.size)
            self._finish(trial_id, wanted, fact)
        finally:
            if self._copying.get(trial_id) is wanted:
                del self._copying[trial_id]
        return None

    def _forget(self, copies: Iterable[Wanted]) -> None:
        """Remove copies whose facts were not recorded."""
        for wanted in copies:
            job_id, number = wanted.name
            self.remove(job_id, number, keep=range(number))
            self._release(wanted)
