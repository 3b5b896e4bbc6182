"""Allocation of Slurm as a host of an experiment: it runs one keeper, which runs trials."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from training_services.addresses import Reach
from training_services.allocations.allocation import Allocation
from training_services.base import Cause, ExperimentContext, ServiceUnavailable, TrialJobSpec
from training_services.keepers.caller import address_of
from training_services.keepers.host import HostGone, read_manager_file, start_order, write_manager_file
from training_services.keepers.jobs import StartOrder
from training_services.keepers.seat import KeeperSeat
from training_services.placement.ledger import Host
from training_services.placement.needs import Wants
from training_services.slurm.config import SlurmConfig
from training_services.slurm.script import launch_of
from training_services.slurm.site import Site
from training_services.slurm.table import End, Row, doubt_of, end_of, why_pending
from training_services.slurm.time_limit import TimeLimit

__all__ = ["SlurmAllocation", "pilot_of"]

QUIET_S = 25.0  # seconds without a call of the keeper after which an allocation is in doubt
SURVIVED_S = 20.0  # seconds without a call after which a keeper does not run on after its allocation
EARLY = timedelta(minutes=1)  # Slurm sends the signal before the time limit up to this much too early
OVERTIME = timedelta(minutes=10)  # after its time limit, an allocation that Slurm does not know has ended
LEAVE_S = 2.0  # seconds that a keeper gets to exit by itself before its allocation is looked for
KNOWN_S = 5.0  # a job that squeue does not show so long after its submission is gone


class SlurmAllocation(Allocation):
    """Job of Slurm with a keeper of one experiment. Its name is that of the keeper.

    ``job_id``: the only job of the experiment that it runs; None: it runs many. ``needs`` returns the
    resources for the allocation. ``vacated`` returns whether its keeper has said that the host shuts down,
    and all jobs there have ended. ``instance``: the keeper that has called from there before the server's
    restart; None: none.
    """

    over: End | None = None

    def __init__(
        self,
        keeper_id: str,
        *,
        context: ExperimentContext,
        config: SlurmConfig,
        site: Site,
        job_id: str | None,
        needs: Callable[[], Wants],
        wants: Wants,
        seen: Callable[[str], None],
        vacated: Callable[[], bool],
        known: bool = False,
        instance: str | None = None,
    ) -> None:
        self.keeper_id = keeper_id
        self.host = Host(id=f"slurm/{keeper_id}", name=f"allocation {keeper_id}")
        self.wants = wants
        self.job_id = job_id
        self.partition = config.partition
        self.spoken = instance is not None
        self.leaving = False  # True: the keeper was ordered to exit, or its host shuts down
        self._context, self._config, self._site = context, config, site
        self._needs, self._seen, self._vacated = needs, seen, vacated
        self._made = known  # True: the allocation was submitted, or may have been
        self._submitted_at: float | None = None  # by the loop's clock; None: not by this server
        self._slurm_id, self._address = launch_of(instance), address_of(instance)
        self._manager: Mapping[str, Any] = {}
        self._heard_at = float("-inf")
        self._limit = TimeLimit(site.notes(keeper_id), lambda: site.limit)
        self._news = asyncio.Event()
        self._doubt: str | None = None
        self._submitting: asyncio.Future[str] | None = None

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self) -> None:
        await self._site.code.pack()
        self._opened_at = asyncio.get_running_loop().time()
        self._site.login.add(self, unknown=self._made)

    async def read_manager(self) -> Mapping[str, Any] | None:
        return read_manager_file(self._site.notes(self.keeper_id))

    async def reach(self) -> Reach:
        return await self._site.reach()

    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        write_manager_file(self._site.notes(self.keeper_id), manager)
        self._manager = manager

    async def keep(self) -> None:
        if not self.spoken and self._row() is None:
            await self._submit()
        self.over = over = await self._end()
        if self.spoken:
            raise HostGone(over.reason, over.cause)
        unread = over.failed and self._config.logs is None
        hint = ' (give "logs", a folder on the nodes, to read why)' if unread else ""
        # One that was made for a job is tried again as the job is, because its node may be at fault.
        cause = Cause.USER_ERROR if over.failed and self.job_id is None else over.cause
        raise HostGone(f"{over.reason} before its keeper had called{hint}", cause)

    async def _submit(self) -> None:
        """Submit the allocation, unless Slurm has it. Raises HostGone, ServiceUnavailable."""
        if self._submitting is None or self._submitting.done():
            if self._made:  # by an earlier server, or with an unknown outcome
                await self._site.login.fresh(self._opened_at if self._submitting is None else None)
                if self.spoken or self._row() is not None:
                    return
            self._made = True
            submitting = self._site.submit(self.keeper_id, wants=self._needs(), manager=self._manager)
            self._submitting = asyncio.ensure_future(submitting)
        # It continues even if this task is canceled: the allocation that comes has to be ended.
        try:
            self._slurm_id = await asyncio.shield(self._submitting)
        except HostGone:
            self._made = False  # Slurm has refused it, so there is nothing to end
            raise
        self._submitted_at = asyncio.get_running_loop().time()

    async def _end(self) -> End:
        """Wait until the allocation has ended, and return how."""
        while True:
            self._news.clear()
            if (end := await self._judge()) is not None:
                return end
            await self._news.wait()

    async def _judge(self) -> End | None:
        """Return how the allocation has ended; None if it may still run."""
        loop = asyncio.get_running_loop()
        table, row = self._site.login.table, self._row()
        end = None if row is None else end_of(row.state, row.job_id, vacated=self._vacated())
        if end is not None and end.cause is Cause.INFRASTRUCTURE and self._was_signalled():
            end = End(f"{self.host.name} has reached its time limit", Cause.PREEMPTED)
        self._doubt = None if row is None or end is not None else doubt_of(row)
        if row is None and table is not None and self._was_known_before(table.at):
            end = await self._judge_unknown()
        quiet = loop.time() - self._heard_at
        if end is not None and quiet < SURVIVED_S:  # the keeper may be about to report how its trials ended
            await asyncio.sleep(SURVIVED_S - quiet)
            return await self._judge()
        return end

    def _was_signalled(self) -> bool:
        """Return whether the signal before the time limit can have ended the keeper."""
        return self.spoken and self._limit.left < self._config.signal_lead

    def _was_known_before(self, at: float) -> bool:
        """Return whether Slurm knew the allocation before this table was read."""
        if self._submitted_at is not None:
            return at > self._submitted_at + KNOWN_S
        return self.spoken

    async def _judge_unknown(self) -> End | None:
        """Return how an allocation has ended that squeue does not show; None if there is no proof."""
        if not self.spoken:
            if self._slurm_id is not None:  # another one will be asked for, so this one must never run
                with contextlib.suppress(ServiceUnavailable):
                    await self._site.login.cancel(self._slurm_id)
            return End("Slurm no longer knows the allocation, which ended", Cause.INFRASTRUCTURE)
        if not self.in_doubt:
            return None
        if self._slurm_id is not None:
            name = self._site.naming(self.keeper_id).name
            state = await self._site.login.ended(self._slurm_id, name)
            if state is not None:
                end = end_of(state, self._slurm_id, vacated=self._vacated())
                if end is not None:
                    return end
        if self._vacated():
            return End("Slurm no longer knows the allocation, and its keeper has ended", Cause.INFRASTRUCTURE)
        if self._limit.left < -OVERTIME:
            return End("its time limit is over, and Slurm no longer knows it", Cause.PREEMPTED)
        self._doubt = f"Slurm no longer knows {self.host.name}, and its keeper does not call"
        return None

    async def end(self, *, told: bool) -> None:
        self.leaving = True
        if told and (self.obeys or (not self.leaves_at_once and await self._has_left())):
            return
        if self._submitting is not None:
            await asyncio.wait({self._submitting})
            if self._slurm_id is None and self._submitting.exception() is None:
                self._slurm_id = self._submitting.result()
        if self._made and (self.over is None or self._site.living(self.keeper_id)):
            await self.destroy()

    async def _has_left(self) -> bool:
        """Return whether the next squeue shows that the keeper has obeyed the order to exit.

        Nearly all keepers obey at once, so this saves a scancel for each allocation.
        """
        await asyncio.sleep(LEAVE_S)
        try:
            await self._site.login.fresh()
        except ServiceUnavailable:
            return False
        row = self._row()
        return row is None or not row.alive

    async def revive(self) -> None:
        """Look at once whether the allocation has ended. Nothing there can be restarted from here."""
        self._site.login.hurry()

    async def destroy(self) -> None:
        if not self._jobs():
            await self._site.login.fresh()
        await asyncio.gather(*map(self._site.login.cancel, self._jobs()))

    def _jobs(self) -> set[str]:
        """Return the ids of all jobs of Slurm that may still run for this allocation."""
        known = set() if self._slurm_id is None else {self._slurm_id}
        return known.union(self._site.living(self.keeper_id))

    async def close(self) -> None:
        self._site.login.remove(self)

    # ---- what is known of it ------------------------------------------------------------------------------

    def bound(self, instance: str | None) -> None:
        """Record which keeper calls from the allocation."""
        self._slurm_id = launch_of(instance) or self._slurm_id
        self._address = address_of(instance)

    def heard(self) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        if self._doubt is not None:  # it runs again, for example because Slurm has resumed it
            self._doubt = None
            self._seen(self.keeper_id)
        if not self.spoken:
            self.spoken = True
            self._limit.begin()
            if self._row() is None:
                self._site.login.look_for_new()

    def _row(self) -> Row | None:
        return self._site.row(self.keeper_id, self._slurm_id)

    @property
    def pending(self) -> bool:
        row = self._row()
        return self._made and not self.spoken and self.over is None and (row is None or row.pending)

    @property
    def gang_address(self) -> str:
        return self._address

    @property
    def accepted(self) -> bool:
        return self._slurm_id is not None or self._row() is not None

    @property
    def has_node(self) -> bool:
        row = self._row()
        return self.spoken or (row is not None and row.alive and not row.pending)

    @property
    def in_doubt(self) -> bool:
        if self.over is not None:
            return False
        if not self.spoken:
            return self._made
        quiet = asyncio.get_running_loop().time() - self._heard_at
        return self.leaving or quiet > QUIET_S

    def seen(self) -> None:
        row, table = self._row(), self._site.login.table
        if row is not None and table is not None and row.left is not None and row.alive and not row.pending:
            self._limit.correct(table.at, row.left)
        self._news.set()
        self._seen(self.keeper_id)

    def obstacle(self) -> str | None:
        if not self.spoken:
            return f"waits: {self._why_absent()}"
        if self._doubt is not None:
            return f"waits: {self._doubt}"
        lack = self._limit.lack(self._config.signal_lead, self._context.max_trial_duration)
        return None if lack is None else f"waits: {self.host.name} {lack}"

    def _why_absent(self) -> str:
        login = self._site.login
        if self._doubt is not None or login.trouble is not None:
            return str(self._doubt or login.trouble)
        row = self._row()
        if row is None or login.table is None:
            return "its allocation was asked for"
        if row.pending:
            return f"allocation {row.job_id} {why_pending(login.table, row)}"
        return f"the keeper in allocation {row.job_id} on {row.nodes or 'its node'} has not called yet"

    @property
    def left(self) -> timedelta | None:
        """Time until the time limit; None if the allocation has not begun."""
        return self._limit.left if self.spoken else None

    def departure(self) -> str | None:
        if not self.spoken:
            return None
        limit = "its allocation has reached its time limit"
        early = "Slurm has ended its allocation early, as by scancel or for a preemption"
        near = self._limit.left < self._config.signal_lead + EARLY
        return limit if self._was_signalled() else f"{limit}, or {early}" if near else early

    @property
    def doubt(self) -> str | None:
        return self._doubt

    @property
    def title(self) -> str:
        """Name for lists of machines: the id in Slurm, and its nodes if they are known."""
        row = self._row()
        name = self.host.name if self._slurm_id is None else f"allocation {self._slurm_id}"
        return name if row is None or not row.nodes else f"{name} on {row.nodes}"

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        given_by_slurm = self.job_id is not None  # its allocation has only the GPUs of this job
        return start_order(
            self._context,
            job,
            None if given_by_slurm else gpus,
            platform="slurm",
            code=self._site.code.archive,
        )


def pilot_of(seat: KeeperSeat) -> SlurmAllocation:
    """Return the allocation of a seat, which is a host with its keeper."""
    assert isinstance(seat.keeper_host, SlurmAllocation)
    return seat.keeper_host
