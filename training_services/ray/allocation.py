"""Allocation of Ray as a host of an experiment: a job of Ray that runs one keeper, which runs trials."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from training_services.addresses import Reach
from training_services.allocations.allocation import Allocation
from training_services.base import Cause, ExperimentContext, ServiceUnavailable, TrialJobSpec
from training_services.keepers.caller import address_of
from training_services.keepers.host import HostGone, read_manager_file, start_order, write_manager_file
from training_services.keepers.jobs import StartOrder
from training_services.keepers.seat import KeeperSeat
from training_services.keepers.ticket import Ticket
from training_services.placement.ledger import Host
from training_services.placement.needs import Wants
from training_services.ray.config import RayConfig
from training_services.ray.records import End, Record, end_of, last_words, misfit, node_has_died
from training_services.ray.site import Site

__all__ = ["RayAllocation", "ray_allocation_of"]

# A healthy keeper calls at least so often. After this time without a call, its job is looked at. If that has
# ended, the keeper does not run on.
QUIET_S = 25.0
# A node that Ray takes for dead ends its processes when its raylet notices that it has lost the cluster, at
# the latest after a minute (gcs_rpc_server_reconnect_timeout_s).
NODE_S = 90.0
PAUSES_S = (0.3, 5.0)  # first and longest pause between two looks at a job that is pending, or in doubt
EXPLAIN_S = 4.0  # a job that has not called for so long is looked at for its reasons
UNKNOWN = "the Ray cluster does not know the allocation any more, so it was restarted"
LEAVE_S = 2.0  # seconds that a keeper gets to exit by itself before its job is stopped


class RayAllocation(Allocation):
    """Job of Ray with a keeper of one experiment. Its id contains the name of the keeper.

    ``job_id``: the only job of the experiment that it runs; None: it runs many. ``needs`` returns the
    resources for the allocation. ``known``: it was submitted before the server's restart, or may have been.
    ``instance``: the keeper that has called from there before that; None: none.
    """

    over: End | None = None

    def __init__(
        self,
        keeper_id: str,
        *,
        context: ExperimentContext,
        config: RayConfig,
        site: Site,
        job_id: str | None,
        needs: Callable[[], Wants],
        wants: Wants,
        seen: Callable[[str], None],
        known: bool = False,
        instance: str | None = None,
    ) -> None:
        self.keeper_id = keeper_id
        self.host = Host(id=f"ray/{keeper_id}", name=f"allocation {keeper_id}")
        self.wants = wants
        self.job_id = job_id
        self.spoken = instance is not None
        self.leaving = False  # True: the keeper was ordered to exit, or its host shuts down
        self._context, self._config, self._site = context, config, site
        self._needs, self._seen = needs, seen
        self._ray_id = site.ray_id(keeper_id)
        self._address = address_of(instance)
        self._made = known  # True: the job was submitted, or may have been
        self._submitting: asyncio.Future[None] | None = None
        self._ticket = Ticket(site.notes(keeper_id))
        self._manager: Mapping[str, Any] | None = None
        self._reach: Reach | None = None
        self._heard_at = float("-inf")  # by the loop's clock
        self._news = asyncio.Event()
        self._doubt: str | None = None
        self._why: str | None = None  # why the keeper has not called, from a look at the job

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self) -> None:
        if self.spoken:
            self._heard_at = asyncio.get_running_loop().time()  # the keeper will call this server
        await self._site.code.pack()
        self._site.cluster.add(self)

    async def read_manager(self) -> Mapping[str, Any] | None:
        return read_manager_file(self._site.notes(self.keeper_id))

    async def reach(self) -> Reach:
        self._reach = await self._site.reach()
        return self._reach

    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        write_manager_file(self._site.notes(self.keeper_id), manager)
        await asyncio.to_thread(self._ticket.read)
        self._manager = manager

    async def enrol(self, ticket: str, launch: str) -> Mapping[str, Any] | None:
        manager = self._manager
        if manager is None:
            raise ServiceUnavailable("the server has just been started")
        if not await asyncio.to_thread(self._ticket.take, ticket, launch):
            return None
        return await self._site.provision(self.keeper_id, wants=self._needs(), launch=launch, manager=manager)

    async def keep(self) -> None:
        if not self.spoken:
            await self._site.cluster.check()
            await self._submit()
        self.over = over = await self._end()
        if self.spoken:
            raise HostGone(over.reason, over.cause)
        cause = Cause.USER_ERROR if over.failed else over.cause
        raise HostGone(f"{over.reason}. Its keeper had not called", cause)

    async def _submit(self) -> None:
        """Submit the job. Ray accepts its id only once, so it may be submitted again after any doubt."""
        assert self._reach is not None
        self._made = True
        submitting = self._site.submit(
            self.keeper_id, wants=self._needs(), reach=self._reach, ticket=self._ticket.text
        )
        self._submitting = asyncio.ensure_future(submitting)
        # It continues even if this task is canceled: the job that comes has to be ended.
        try:
            await asyncio.shield(self._submitting)
        except HostGone:
            self._made = False  # Ray has rejected it, so there is nothing to end
            raise

    async def _end(self) -> End:
        """Wait until the job has ended, and return how."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        pause, longest = PAUSES_S
        while True:
            self._news.clear()
            wait = self._rest()
            if wait is None:
                end = await self._look(explain=loop.time() > began + EXPLAIN_S)
                if end is not None:
                    return end
                wait, pause = pause, min(2 * pause, longest)
            else:
                pause = PAUSES_S[0]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._news.wait()

    def _rest(self) -> float | None:
        """Return for how many seconds the job need not be looked at; None if it has to be looked at now."""
        if not self.spoken or self.leaving:
            return None
        left = QUIET_S - self._quiet()
        if left > 0:
            self._doubt = None
            return left
        return None

    def _quiet(self) -> float:
        """Return the number of seconds since the keeper's last call."""
        return asyncio.get_running_loop().time() - self._heard_at

    async def _look(self, *, explain: bool) -> End | None:
        """Look at the job. Return how it has ended; None if it may still run."""
        cluster = self._site.cluster
        try:
            await cluster.check()
            record = await cluster.record(self._ray_id)
            end = End(UNKNOWN, Cause.INFRASTRUCTURE) if record is None else end_of(record)
            dead = record is not None and node_has_died(record)
            if record is not None and end is None:
                if not self.spoken and explain:
                    self._why = await self._explain(record)
                # The processes that watch over jobs die with the raylet of the head node.
                if record.node is not None and await cluster.takes_for_dead(record.node):
                    dead, end = True, End(f"the node of {self.host.name} has died", Cause.INFRASTRUCTURE)
        except ServiceUnavailable as error:
            self._set_doubt(str(error))
            return None
        survived, doubt = QUIET_S, None
        if dead:
            survived = NODE_S
            doubt = f"Ray says that its node has died; its processes may run on for {NODE_S:g} s"
        elif end is None and not self.leaving and self._quiet() > QUIET_S:
            doubt = f"Ray says that it runs, but its keeper has not called for {QUIET_S:g} s"
        self._set_doubt(doubt)
        # the keeper may be about to report how its trials have ended
        return end if self._quiet() >= survived else None

    def _set_doubt(self, doubt: str | None) -> None:
        if self.spoken:
            self._doubt = None if doubt is None else f"{self.host.name}: {doubt}"
        self._seen(self.keeper_id)

    async def _explain(self, record: Record) -> str | None:
        """Return why the keeper of a job has not called, as a sentence without its subject."""
        cluster = self._site.cluster
        if not record.pending:
            said = last_words(await cluster.output(self._ray_id))
            return f"runs, and its keeper has not called yet{f': {said}' if said else ''}"
        missing = misfit(self._site.resources(self._needs()), await cluster.nodes())
        if missing is not None:
            return f"is pending: {missing}"
        hint = " or for its runtimeEnv" if self._config.runtime_env else ""
        return f"is pending: it waits for free resources of the cluster{hint}"

    async def end(self, *, told: bool) -> None:
        self.leaving = True
        if told and self.obeys:
            return
        if told and not self.leaves_at_once:
            await asyncio.sleep(LEAVE_S)
        if self._submitting is not None:
            await asyncio.wait({self._submitting})
        if self._made and self.over is None:
            await self.destroy()

    async def revive(self) -> None:
        """Look at once whether the job has ended. Nothing there can be restarted from here."""
        self._news.set()

    async def destroy(self) -> None:
        await self._site.cluster.stop(self._ray_id)

    async def close(self) -> None:
        self._site.cluster.remove(self)

    # ---- what is known of it ------------------------------------------------------------------------------

    def bound(self, instance: str | None) -> None:
        """Record which keeper calls from the allocation."""
        self._address = address_of(instance)

    @property
    def gang_address(self) -> str:
        return self._address

    def heard(self) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self.spoken = True
        self._doubt = self._why = None

    def seen(self) -> None:
        self._news.set()
        self._seen(self.keeper_id)

    def leave(self) -> None:
        """Look at the job from now on, because its keeper says that the host shuts down."""
        if not self.leaving:
            self.leaving = True
            self._news.set()

    def obstacle(self) -> str | None:
        return None if self.spoken else f"waits: {self._why_absent()}"

    def _why_absent(self) -> str:
        if (trouble := self._site.cluster.trouble) is not None:
            return trouble
        return "its allocation was asked for" if self._why is None else f"{self.host.name} {self._why}"

    @property
    def doubt(self) -> str | None:
        return self._doubt

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        given_by_ray = self.job_id is not None  # its allocation has only the GPUs of this job
        return start_order(
            self._context,
            job,
            None if given_by_ray else gpus,
            platform="ray",
            code=self._site.code.archive,
        )


def ray_allocation_of(seat: KeeperSeat) -> RayAllocation:
    """Return the allocation of a seat, which is a host with its keeper."""
    assert isinstance(seat.keeper_host, RayAllocation)
    return seat.keeper_host
