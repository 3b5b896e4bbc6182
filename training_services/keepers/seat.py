"""Seat: a host of one experiment together with its keeper.

The seat registers the keeper's token, keeps the keeper running, and detects when it no longer calls.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

from training_services.base import (
    ExperimentContext,
    JobEvent,
    KeeperEnrolled,
    KeeperHeard,
    KeeperSilent,
    KnownKeepers,
    Machine,
    MachineStatus,
    ServiceError,
    TrialJobSpec,
)
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers.host import HostGone, KeeperHost
from training_services.keepers.hub import KeeperDesk, token_digest
from training_services.keepers.jobs import StartOrder
from training_services.keepers.lease import LeaseWatch
from training_services.keepers.link import KeeperLink
from training_services.keepers.upkeep import Upkeep
from training_services.placement.needs import Host, Wants

__all__ = ["KeeperSeat", "Platform"]

logger = logging.getLogger(__name__)

OBEY_S = 2.0  # a keeper that does not fetch a stop order within this time counts as hanging
# seconds to wait for a call of a keeper that may run a lost job; longer than the pause between its calls
FAREWELL_S = 15.0


class Platform(Protocol):
    """Methods of the training service that a seat calls. A seat is a host with its keeper."""

    context: ExperimentContext
    copies: CheckpointStore

    def put(self, events: Sequence[JobEvent]) -> None:
        """Pass these events to the core."""

    def needs_files(self, keeper_id: str) -> bool:
        """Return True while files on the host of this keeper are to be copied to the server."""

    async def provide_copy(self, job_id: str, number: int) -> str | None:
        """Make sure that the server's disk has a copy of a checkpoint, if possible. Return a sentence if the
        keeper has to ask again later.
        """

    def reasons_changed(self) -> None:
        """Check again why jobs wait, and report reasons that have changed."""

    def host_gone(self, seat: KeeperSeat, gone: HostGone) -> None:
        """Handle the loss of the seat's host, which no longer exists."""


class KeeperSeat:
    """Host of one experiment together with its keeper.

    ``token`` is the keeper's secret token; ``enrolled``: the fact that allows this token is committed.
    """

    def __init__(
        self,
        keeper_host: KeeperHost,
        desk: KeeperDesk,
        platform: Platform,
        *,
        token: str,
        enrolled: bool,
        silent: bool,
        known: KnownKeepers,
    ) -> None:
        self.keeper_host = keeper_host
        self.wants = keeper_host.wants or Wants.of(platform.context)
        self.desk = desk
        self.jobs: set[str] = set()  # jobs placed here that the service has not forgotten yet
        self.closing: dict[str, None] = {}  # jobs placed here that have ended
        self.ready = False  # True once the keeper has listed its attempts: jobs can be placed
        self._unwanted = False  # True while attempts run on the host that belong to no job
        self._ending = False  # True: the host is about to shut down
        self.draining = False  # no more jobs are placed here
        self.removing = False  # the machine is removed when its jobs have ended
        self._platform = platform
        self._token = token
        self._enrolled = enrolled
        self._silent = silent
        self._upkeep = Upkeep(
            keeper_host,
            desk,
            experiment_id=platform.context.experiment_id,
            token=token,
            known=known,
            on_trouble=platform.reasons_changed,
            on_gone=partial(platform.host_gone, self),
        )
        self._timer: asyncio.TimerHandle | None = None
        self._lease: LeaseWatch | None = None
        self._obey_timer: asyncio.TimerHandle | None = None
        self._heard_at = 0.0  # on the loop's clock
        self._last_word_at: datetime | None = None

    @property
    def link(self) -> KeeperLink:
        return self.desk.link

    @property
    def host(self) -> Host:
        """Machine of the seat, in the form that the placement of jobs uses."""
        return self.keeper_host.host

    @property
    def id(self) -> str:
        return self.keeper_host.keeper_id

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        """Return the command that starts the job on these GPUs of the host."""
        return self.keeper_host.start_order(job, gpus)

    def line_key(self, job_id: str) -> str:
        """Return the secret by which the members of a gang prove who they are. Its leader is on this host.

        It is derived from the keeper's token, so the next server finds the same one, and nothing is stored.
        """
        return hmac.new(self._token.encode(), f"gang {job_id}".encode(), hashlib.sha256).hexdigest()

    @property
    def trouble(self) -> str | None:
        """Return a sentence that says why the keeper does not run, or None if it runs or will soon run."""
        return None if self.keeper_host.accepted else self._upkeep.trouble

    def enrol(self) -> None:
        """Report the keeper's token to the core, which commits it, unless the token is committed already."""
        if not self._enrolled:
            event = KeeperEnrolled(keeper_id=self.id, token_sha256=token_digest(self._token))
            self._platform.put([event])

    def open(self) -> None:
        """Start to answer the keeper and to keep it running.

        Call this after all earlier jobs were submitted.
        """
        self.desk.open = True
        if self._platform.context.lease is not None:
            self._lease = LeaseWatch(self.desk, self._platform.context.lease, self._lease_over)
            self._lease.begin()
        if self._enrolled:
            self._tend()

    def enrolled(self, fact: KeeperEnrolled) -> None:
        """Record that a keeper's token is committed. If it is this seat's token, start the keeper."""
        if not self._enrolled and fact.token_sha256 == token_digest(self._token):
            self._enrolled = True
            self.desk.token_sha256 = fact.token_sha256
            if self.desk.open:
                self._tend()

    def heard(self) -> bool:
        """Record a call of the keeper. Return True if the seat may have become ready for jobs."""
        self._heard_at = asyncio.get_running_loop().time()
        self._last_word_at = datetime.now(UTC)
        self._upkeep.trouble = None
        state = self.link.inventory.named, self.link.inventory.unwanted, self.link.ending
        news = self._silent or state != (self.ready, self._unwanted, self._ending)
        self.ready, self._unwanted, self._ending = state
        if self._silent:
            self._silent = False
            self._platform.put([KeeperHeard(keeper_id=self.id)])
        return news

    @property
    def silent(self) -> bool:
        """True if the keeper has not called for too long."""
        return self._silent

    @property
    def arriving(self) -> bool:
        """True as long as the server does not know whether the keeper can be reached."""
        return not self.ready and self.trouble is None and not self._silent

    def obstacle(self) -> str | None:
        """Return a sentence that says why no job can start on this host now, or None."""
        absence, name = self.absence(), self.host.name
        if absence is not None:
            return absence
        if self.link.inventory.unwanted:
            return f"waits until trials on {name} that count as lost have ended"
        return f"waits: {name} is shutting down" if self._ending else None

    def absence(self) -> str | None:
        """Return a sentence that says why the keeper cannot be asked for anything now, or None."""
        if self.ready and not self._silent:
            return None
        name = self.host.name
        what = "calls again" if self._silent else "has started"
        sentence = f"waits until nnimgr's keeper on {name} {what}"
        return sentence if self.trouble is None else f"{sentence}: {self.trouble}"

    def passing_obstacle(self) -> str | None:
        """Return a sentence that says why no job can start now, if no event reports when this changes.

        Else return None. After a sentence, the caller must check again later.
        """
        return self.keeper_host.obstacle()

    def machine(self, *, gpus: int | None) -> Machine:
        """Return the description of the machine for users. ``gpus``: number of its GPUs, if known."""
        host, facts = self.host, self.link.facts
        obstacle = self.trouble or self.keeper_host.obstacle()
        if obstacle is None and self._silent:
            obstacle = "its keeper does not call"
        there = self.link.ready and obstacle is None
        if self.removing:
            status = MachineStatus.REMOVING
        elif self.draining:
            status = MachineStatus.DRAINING
        elif there:
            status = MachineStatus.CONNECTED
        else:
            status = MachineStatus.CONNECTING if self.arriving else MachineStatus.UNREACHABLE
        return Machine(
            keeper_id=self.id,
            name=host.name,
            address=host.id,
            status=status,
            reason=self.link.status if there else obstacle,
            since=None if there else self._last_word_at,
            job_ids=tuple(sorted(job_id for job_id in self.jobs if job_id not in self.closing)),
            cpus=None if facts is None else facts.capacity.cpus,
            memory=None if facts is None else facts.capacity.memory,
            disk=None if facts is None else facts.capacity.disk,
            gpus=gpus,
            version=None if facts is None else facts.version,
            passing=self.keeper_host.passing,
        )

    def notice(self) -> str | None:
        """Return the keeper's current problem as a sentence, or None if it has none."""
        name = self.host.name
        if self.trouble is not None:
            return f"{name}: {self.trouble}" if self.keeper_host.passing else self.trouble
        return None if self.link.status is None else f"on {name}: {self.link.status}"

    def expect_obedience(self) -> None:
        """Watch whether the keeper fetches a stop order soon, and restart the keeper if it does not.

        Call this when a stop order may be sent.
        """
        if self._obey_timer is None:
            loop = asyncio.get_running_loop()
            self._obey_timer = loop.call_later(OBEY_S, self._check_obedience, self.link.commands.committed)

    def _check_obedience(self, number: int) -> None:
        self._obey_timer = None
        if self.link.commands.seen < number:
            self._upkeep.revive()
        elif self.link.commands.seen < self.link.commands.committed:
            self.expect_obedience()

    async def stop(self) -> None:
        """Stop watching and restarting the keeper. The keeper itself continues."""
        for timer in (self._timer, self._lease, self._obey_timer):
            if timer is not None:
                timer.cancel()
        await self._upkeep.stop()

    async def dismiss(self, *, patient: bool) -> str | None:
        """Order the keeper to stop its trials and exit. Return a sentence about errors, or None.

        ``patient``: if a lost job may still run on the host, wait for the keeper's next call, because this is
        the last chance to stop that job.
        """
        await self.desk.dismiss(FAREWELL_S if patient and self._may_run_given_up() else 0.0)
        await self.stop()
        try:
            await self.keeper_host.end(told=self.link.ready)
        except (OSError, ServiceError) as error:
            sentence = f"the keeper on {self.host.name} could not be ended: {error}"
            logger.warning("%s", sentence)
            return sentence
        return None

    def _may_run_given_up(self) -> bool:
        """Return True if a lost job may still run on the host, where only the keeper can stop it."""
        if self.keeper_host.passing or self.link.caller.instance is None:
            return False
        # no keeper runs on the host, and the server will not start one
        if not self._upkeep.begun and self.keeper_host.is_without_keeper():
            return False
        return not self.link.ready or any(self.link.jobs.is_astray(job_id) for job_id in self.jobs)

    def _tend(self) -> None:
        """Start the keeper, keep it running, and start to watch for its silence."""
        if not self._upkeep.begun:
            self._heard_at = asyncio.get_running_loop().time()
            self._listen()
        self._upkeep.begin()

    def _listen(self) -> None:
        """Report the keeper as silent if it has not called for too long, and set a timer for the next check.

        A call of the keeper does not change this timer.
        """
        loop = asyncio.get_running_loop()
        limit = self._platform.context.silent_after.total_seconds()
        left = self._heard_at + limit - loop.time()
        if left <= 0:
            left = limit
            has_called = not self.keeper_host.passing or self.link.caller.instance is not None
            if not self._silent and has_called:
                self._silent = True
                reason = f"the keeper on {self.host.name} has not called for {limit:g} s"
                if self.trouble is not None:
                    reason += f": {self.trouble}"
                self._platform.put([KeeperSilent(keeper_id=self.id, reason=reason)])
                self._platform.reasons_changed()
            if has_called:
                self._upkeep.revive()
            self._upkeep.begin()
        self._timer = loop.call_later(left, self._listen)

    def _lease_over(self, lease: timedelta) -> None:
        name, limit = self.host.name, f"{lease.total_seconds():g} s"
        reason = f"the keeper on {name} was silent for longer than its lease ({limit})"
        self._platform.put(self.link.jobs.give_up(reason))
