"""Training service for hosts that an engine creates for jobs and removes after them, such as pods.

An allocation is a host with its own keeper. It is created for its jobs and removed after them. What a keeper
cannot report, such as why an allocation has not started, the platform finds out from its engine.
"""

from __future__ import annotations

import abc
import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from training_services.allocations.allocation import Allocation, allocation_of
from training_services.allocations.gangs import GangAllocations
from training_services.allocations.insistence import Insistence, stops_before, stops_in
from training_services.allocations.queues import Acts, first_name
from training_services.base import (
    CheckpointReported,
    ExperimentContext,
    FileListing,
    JobEvent,
    JobPlaced,
    KeeperGone,
    KnownKeeper,
    KnownKeepers,
    ServiceError,
    TrialJobSpec,
)
from training_services.job_ids import job_of_member, trial_of_job
from training_services.keepers.host import HostGone, KeeperHost, attempt_folder
from training_services.keepers.hub import KeeperDesk
from training_services.keepers.link import Received
from training_services.keepers.placing import JobPlacing
from training_services.keepers.seat import KeeperSeat
from training_services.keepers.service import KeeperService
from training_services.logs import FolderFiles, check_log_name, is_log
from training_services.placement.needs import Wants
from training_services.tools import ServiceTools

__all__ = ["AllocationPlacing", "AllocationService", "prefix_of"]

logger = logging.getLogger(__name__)

LISTING_S = 120.0  # limit for listing a trial's files through a keeper that may not answer
COPY_S = 120.0  # longest wait of an allocation without progress in copying its checkpoints
LAST_FETCHES_S = 30.0  # limit in seconds for copying the logs when the experiment ends
PREPARE_AGAIN_S = 5.0
MOST_TOLD = 5  # sentences about allocations that could not be ended


class AllocationPlacing(JobPlacing, Protocol):
    """Queue of an experiment's jobs that also decides which allocations are made and kept."""

    def gone(self, keeper_id: str, gone: HostGone) -> None:
        """Handle the end of an allocation. The service handles the jobs that were placed there."""

    def expects(self, seat: KeeperSeat) -> bool:
        """Return True if a job runs on the seat's allocation, or may still be placed there."""

    def awaits(self, keeper_id: str) -> bool:
        """Return True if a job still waits for this allocation, whose creation has failed so far."""

    def explain(self, keeper_id: str, reason: str) -> None:
        """Show ``reason`` on the jobs that wait for this allocation."""

    def tell(self, keeper_ids: Sequence[str]) -> None:
        """Report new reasons to the jobs that wait for these allocations, which have changed."""


class AllocationService(KeeperService):
    """Training service that runs the jobs of one experiment in allocations.

    A platform defines how an allocation is made (``_host``) and who decides which are made
    (``_make_queue``).
    """

    _queue: AllocationPlacing

    def __init__(self, context: ExperimentContext, tools: ServiceTools) -> None:
        super().__init__(context, hub=tools.hub, ledger=tools.ledger, transfers=tools.transfers)
        # tasks that copy the logs of ended jobs to the server: keeper -> ended job -> task
        self._fetches: dict[str, dict[str, asyncio.Task[None]]] = {}
        self._insistence = Insistence(self._lose_patience)
        self._leaving: set[str] = set()  # keepers whose allocations are being removed
        self._remains: list[str] = []  # sentences about allocations that could not be ended
        # keepers whose allocations are removed when their checkpoints are copied
        self._parting: set[str] = set()

    @abc.abstractmethod
    def _host(self, keeper_id: str, job_id: str | None, known: KnownKeeper | None = None) -> Allocation:
        """Return the allocation of this keeper. ``job_id``: the only job, or member, that it runs, if known.

        ``known``: what the core has recorded of the keeper; None: the allocation is new.
        """

    @abc.abstractmethod
    def _job_of(self, keeper_id: str) -> str | None:
        """Return the job for which an allocation was made, or None if it is not known.

        ``keeper_id``: its name without the prefix.
        """

    def _discard(self, keeper_id: str) -> None:
        """Clean up after an allocation that the experiment no longer uses."""
        return None

    def _acts(self) -> Acts:
        """Return the functions that the queue calls."""
        return Acts(
            self._start, self._outbox.put, self._bring, self._send_away, self._wants_of, self.name_prefix
        )

    @property
    def name_prefix(self) -> str:
        """Beginning of the names of all allocations; "" if the experiment has only this platform."""
        return prefix_of(self.context.one_of_several)

    def _wants_of(self, job: TrialJobSpec | None) -> Wants:
        """Return what the job needs; None: what all jobs need."""
        wants = Wants.of(self.context)
        return wants if job is None else wants.of_job(job)

    # ---- life ---------------------------------------------------------------------------------------------

    def _known_hosts(self, known: KnownKeepers) -> Iterable[KeeperHost]:
        names = {each: first_name(each.keeper_id.removeprefix(self.name_prefix)) for each in known.keepers}
        return [self._host(each.keeper_id, self._job_of(name), each) for each, name in names.items()]

    async def close(self, *, detach: bool) -> Sequence[str]:
        self._insistence.close()
        fetches = [task for jobs in self._fetches.values() for task in jobs.values()]
        if not detach:
            await self._copy_last()
            if fetches:
                await asyncio.wait(fetches, timeout=LAST_FETCHES_S)
            self._leaving.update(self._seats)  # from now on, files are read from the local folder
            for seat in self._seats.values():
                seat.link.leaving = True
                seat.desk.flush()
                allocation = allocation_of(seat)
                allocation.leaves_at_once, allocation.obeys = True, seat.link.leave_told
        for task in fetches:
            task.cancel()
        left = await super().close(detach=detach)
        hidden = len(self._remains) - MOST_TOLD
        more = [f"{hidden} more could not be ended, as the server's log says"] if hidden > 0 else []
        return left if detach else [*left, *self._remains[-MOST_TOLD:], *more]

    def _parted(self, seat: KeeperSeat) -> None:
        self._outbox.put([KeeperGone(keeper_id=seat.id)])

    # ---- allocations --------------------------------------------------------------------------------------

    def _bring(self, keeper_id: str, job_id: str | None) -> None:
        self._errands.spawn(keeper_id, self._enter(keeper_id, job_id))

    async def _enter(self, keeper_id: str, job_id: str | None) -> None:
        while True:
            try:
                seat = await self._join(self._host(keeper_id, job_id))
                break
            # Retry, because the user may be able to fix the error, such as trial code that cannot be packed.
            except (ServiceError, OSError) as error:
                logger.warning("experiment %s: %s: %s", self.context.experiment_id, keeper_id, error)
                self._queue.explain(keeper_id, f"waits: {error}")
            await asyncio.sleep(PREPARE_AGAIN_S)
            if not self._queue.awaits(keeper_id):
                return
        self._begin(seat)
        self._vacated(seat)  # the job may have been canceled in the meantime

    def _seen(self, names: Collection[str]) -> None:
        """Report new reasons to the jobs that wait for these allocations.

        Without names, the state of the engine itself has changed, and all waiting jobs are updated.
        """
        self._queue.tell(list(names) or list(self._seats))

    def _deliver(self, desk: KeeperDesk, received: Received) -> None:
        if (seat := self._seats.get(desk.link.keeper_id)) is not None:
            allocation_of(seat).heard()
            super()._deliver(desk, received)

    def host_gone(self, seat: KeeperSeat, gone: HostGone) -> None:
        self._queue.remove(seat)
        super().host_gone(seat, gone)
        self._queue.gone(seat.id, gone)
        for fetch in self._fetches.get(seat.id, {}).values():
            fetch.cancel()
        self._send_away(seat)

    def _leave(self, job_id: str, seat: KeeperSeat) -> None:
        self._fetch(job_id, seat)
        super()._leave(job_id, seat)

    def _vacated(self, seat: KeeperSeat) -> None:
        if seat.id in self._parting and self._adopted:
            self._send_away(seat)
        elif self._adopted and not self._queue.expects(seat):
            # Copy the logs of the allocation's trial, which may have ended before the server's restart.
            if (job_id := allocation_of(seat).job_id) is not None:
                self._fetch(job_id, seat)
            self._send_away(seat)

    def _send_away(self, seat: KeeperSeat) -> None:
        """Stop using the allocation. Remove it after checkpoints and logs have been copied to the server."""
        if seat.id in self._leaving or seat.id not in self._seats:
            return
        self._queue.remove(seat)
        self._keeping.leave(seat.id, COPY_S)
        if self._keeping.awaits(seat.id):
            self._parting.add(seat.id)
            return
        self._parting.discard(seat.id)
        self._leaving.add(seat.id)
        self._errands.spawn(seat.id, self._see_off(seat))

    async def _see_off(self, seat: KeeperSeat) -> None:
        await asyncio.gather(*self._fetches.get(seat.id, {}).values(), return_exceptions=True)
        note = await self._let_go(seat)
        if note is not None:
            logger.warning("experiment %s: %s", self.context.experiment_id, note)
            self._remains.append(note)
        self._discard(seat.id)
        self._leaving.discard(seat.id)
        self._parted(seat)

    def committed(self, facts: Sequence[JobEvent]) -> None:
        super().committed(facts)
        gangs = self._queue if isinstance(self._queue, GangAllocations) else None
        for fact in facts:
            for job_id, within in stops_in(fact):
                self._insist(job_id, within)
            if gangs is not None and isinstance(fact, CheckpointReported):
                gangs.saved(fact.job_id)

    def _adopt(self, job: TrialJobSpec, placed: JobPlaced) -> None:
        super()._adopt(job, placed)
        self._insist_again(job)

    def _adopt_gang(self, job: TrialJobSpec, placed: JobPlaced) -> None:
        super()._adopt_gang(job, placed)
        self._insist_again(job)

    def _insist_again(self, job: TrialJobSpec) -> None:
        for job_id, within in stops_before(job):
            self._insist(job_id, within)

    def _insist(self, job_id: str, within: timedelta) -> None:
        if (seat := self._placed.get(job_id)) is not None:
            self._insistence.begin(job_id, seat, within)

    def _lose_patience(self, job_id: str, seat: KeeperSeat) -> None:
        """End the allocation of a job, or of a member, whose keeper has not obeyed the order to stop."""
        jobs = seat.link.jobs
        if (jobs.is_open(job_id) or jobs.is_astray(job_id)) and seat.id not in self._errands:
            self._errands.spawn(seat.id, self._delete(job_id, seat))

    async def _delete(self, job_id: str, seat: KeeperSeat) -> None:
        try:
            await allocation_of(seat).destroy()
        except ServiceError as error:
            logger.warning("experiment %s: %s", self.context.experiment_id, error)
            self._insistence.begin(job_id, seat)

    # ---- files of trials ----------------------------------------------------------------------------------

    def _fetch(self, job_id: str, seat: KeeperSeat) -> None:
        """Copy the logs of an ended job to the experiment's folder, where they stay after the allocation."""
        allocation = allocation_of(seat)
        if job_id in self._fetches.get(seat.id, {}) or allocation.over is not None or not allocation.spoken:
            return
        under_way = self._fetches.setdefault(seat.id, {})
        task = asyncio.create_task(self._bring_logs(job_id, seat), name=f"{job_id}:logs")
        under_way[job_id] = task

        def over(_: object) -> None:
            del under_way[job_id]
            if not under_way and self._fetches.get(seat.id) is under_way:
                del self._fetches[seat.id]
                seat.desk.flush()

        task.add_done_callback(over)

    async def _bring_logs(self, job_id: str, seat: KeeperSeat) -> None:
        parts = _parts(job_id)
        folder = self.context.directory.joinpath(*parts)
        try:
            async with asyncio.timeout(LISTING_S):
                listing = await seat.desk.listing(parts)
            for file in listing.files:
                if is_log(file.path):
                    await asyncio.to_thread((folder / file.path).parent.mkdir, parents=True, exist_ok=True)
                    if file.size:
                        await _copy(seat, parts, file.path, folder)
                    else:  # nothing to ask the keeper for
                        await asyncio.to_thread((folder / file.path).touch)
        except (TimeoutError, OSError, ServiceError) as error:
            experiment = self.context.experiment_id
            logger.warning("experiment %s: could not copy the logs of %s: %s", experiment, job_id, error)

    def needs_files(self, keeper_id: str) -> bool:
        return super().needs_files(keeper_id) or keeper_id in self._fetches

    async def _fetched(self, job_id: str) -> None:
        """Wait until the logs of the ended job have been copied to the server."""
        fetches = [jobs[job_id] for jobs in self._fetches.values() if job_id in jobs]
        await asyncio.gather(*map(asyncio.shield, fetches), return_exceptions=True)

    async def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        here = await asyncio.to_thread(self.context.directory.joinpath(*_parts(job_id), name).exists)
        if self._is_there(job_id) or (not here and self._is_there(job_id, keeper_id)):
            chunks = super().read_log(job_id, name, follow=follow, tail=tail, keeper_id=keeper_id)
        else:
            check_log_name(name)
            await self._fetched(job_id)
            chunks = FolderFiles(self.context.directory).read(_parts(job_id), name, tail=tail)
        async with aclosing(chunks):  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    async def read_file(
        self, job_id: str, path: str, *, keeper_id: str | None = None
    ) -> AsyncIterator[bytes]:
        if self._is_there(job_id, keeper_id):
            chunks = super().read_file(job_id, path, keeper_id=keeper_id)
        else:
            await self._fetched(job_id)
            chunks = FolderFiles(self.context.directory).read(_parts(job_id), path)
        async with aclosing(chunks):  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        if self._is_there(job_id, keeper_id):
            return await super().list_files(job_id, keeper_id=keeper_id)
        await self._fetched(job_id)
        return await FolderFiles(self.context.directory).listing(_parts(job_id))

    def _is_there(self, job_id: str, keeper_id: str | None = None) -> bool:
        """Return True if the job's files must be read through its keeper, because the server has no copy."""
        seat = self._placed.get(job_id) or self._seats.get(keeper_id or "")
        return seat is not None and allocation_of(seat).over is None and seat.id not in self._leaving


def prefix_of(platform: str) -> str:
    """Return the beginning of the names of a platform's allocations; "" for the only platform."""
    return f"{platform}-" if platform else ""


def _parts(job_id: str) -> tuple[str, ...]:
    return attempt_folder(*trial_of_job(job_id), job_of_member(job_id)[1])


async def _copy(seat: KeeperSeat, parts: Sequence[str], name: str, folder: Path) -> None:
    """Copy the trial's log ``name`` through its keeper to the folder. Raises OSError, ServiceError."""
    fresh = (folder / name).with_name(f".{Path(name).name}.part")
    file = await asyncio.to_thread(fresh.open, "wb")
    try:  # if the copy breaks off, keep the part that has arrived
        async with aclosing(seat.desk.read(parts, name)) as chunks:
            async for chunk in chunks:
                await asyncio.to_thread(file.write, chunk)
    finally:
        file.close()
        os.replace(fresh, folder / name)
