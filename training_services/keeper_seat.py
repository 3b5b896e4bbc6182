"""A host of one experiment and the keeper on it: enrolled, kept running, listened for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

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
)
from training_services.keeper_host import HostGone, KeeperHost, Reach, Wants
from training_services.keeper_hub import KeeperDesk, token_digest, with_turn
from training_services.keeper_link import KeeperLink
from trial_keeper.wire import PATH

__all__ = ["KeeperSeat", "Platform"]

logger = logging.getLogger(__name__)

SHORT_LIFE_S = 1.0  # a keeper that ended sooner is not started again at once
OBEY_S = 2.0  # a keeper that has not fetched a stop by then hangs
FAREWELL_S = 15.0  # for the next call of a keeper that may run a lost job; longer than its back-off
REVIVE_PAUSE_S = 10.0  # between two attempts to restart a keeper: a slow machine needs time to start it
PAUSES_S = (0.05, 5.0)  # first and longest such pause
# So long after its last answer everything on a silent host has ended by its lease: the clocks may differ by
# so much, and what does not heed SIGTERM is killed a while after the end.
LEASE_CLOCKS, LEASE_KILL_S = 1.1, 5.0


class Platform(Protocol):
    """What a seat needs of the service that it is in."""

    context: ExperimentContext

    def put(self, events: Sequence[JobEvent]) -> None:
        """Hand these to the core."""

    def reasons_changed(self) -> None:
        """Waiting jobs are to be told anew why they wait."""

    def host_gone(self, seat: KeeperSeat, gone: HostGone) -> None:
        """The seat's host is no more."""


class KeeperSeat:
    """One host with its keeper. ``token`` is the keeper's; ``enrolled``: it is committed."""

    def __init__(
        self,
        keeper: KeeperHost,
        desk: KeeperDesk,
        platform: Platform,
        *,
        token: str,
        enrolled: bool,
        silent: bool,
        known: KnownKeepers,
    ) -> None:
        self.keeper = keeper
        self.wants = keeper.wants or Wants.of(platform.context)
        self.desk = desk
        self.jobs: set[str] = set()  # placed here, until they are forgotten
        self.closing: dict[str, None] = {}  # those of them that have ended
        self.ready = False  # it has spoken
        self.trouble: str | None = None  # why the keeper does not run
        self.draining = False  # nothing more is to be placed here
        self.removing = False  # and when its jobs have ended, the machine is used no longer
        self._platform = platform
        self._token = token
        self._known = known
        self._written = 0  # so often was manager.json
        self._enrolled = enrolled
        self._silent = silent
        self._tending: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # that one, and those it replaced which still end
        self._timer: asyncio.TimerHandle | None = None
        self._lease_timer: asyncio.TimerHandle | None = None
        self._obey_timer: asyncio.TimerHandle | None = None
        self._revived_at = float("-inf")  # on the loop's clock
        self._lapsed: float | None = None  # the answer since which nothing was heard when it was given up
        self._heard_at = 0.0  # on the loop's clock
        self._last_word_at: datetime | None = None

    @property
    def link(self) -> KeeperLink:
        return self.desk.link

    @property
    def id(self) -> str:
        return self.keeper.keeper_id

    def enrol(self) -> None:
        """Ask for the token to be committed, unless it is."""
        if not self._enrolled:
            event = KeeperEnrolled(keeper_id=self.id, token_sha256=token_digest(self._token))
            self._platform.put([event])

    def open(self) -> None:
        """All jobs of before are known: from now on the keeper is answered, and kept running."""
        self.desk.open = True
        if self._platform.context.lease is not None:
            self.desk.answered_at = asyncio.get_running_loop().time()  # an earlier server may have, until now
            self._watch_lease(self._platform.context.lease)
        if self._enrolled:
            self._tend()

    def enrolled(self, fact: KeeperEnrolled) -> None:
        """A token is committed."""
        if not self._enrolled and fact.token_sha256 == token_digest(self._token):
            self._enrolled = True
            self.desk.token_sha256 = fact.token_sha256
            if self.desk.open:
                self._tend()

    def heard(self) -> bool:
        """The keeper has just called. True: jobs can be placed here from now on."""
        self._heard_at = asyncio.get_running_loop().time()
        self._last_word_at = datetime.now(UTC)
        self.trouble = None
        news = self._silent or not self.ready
        self.ready = True
        if self._silent:
            self._silent = False
            self._platform.put([KeeperHeard(keeper_id=self.id)])
        return news

    @property
    def arriving(self) -> bool:
        """Nothing is known yet of whether its keeper can be had."""
        return not self.ready and self.trouble is None and not self._silent

    def obstacle(self) -> str | None:
        """Why nothing can be started here at present, as one sentence."""
        if self.link.ready and not self._silent:
            return None
        sentence = f"waits for the keeper on {self.keeper.host.name}"
        return sentence if self.trouble is None else f"{sentence}: {self.trouble}"

    def machine(self, *, gpus: int | None) -> Machine:
        """What there is to say of the machine."""
        host, told = self.keeper.host, self.link.host
        obstacle = self.keeper.obstacle() or self.trouble
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
            cpus=None if told is None else told.capacity.cpus,
            memory=None if told is None else told.capacity.memory,
            disk=None if told is None else told.capacity.disk,
            gpus=gpus,
            version=None if told is None else told.version,
        )

    def notice(self) -> str | None:
        """What is wrong with the keeper, as one sentence."""
        name = self.keeper.host.name
        if self.trouble is not None:
            return f"the keeper on {name}: {self.trouble}"
        return None if self.link.status is None else f"on {name}: {self.link.status}"

    def expect_obedience(self) -> None:
        """A stop may leave: restart the keeper if it does not fetch that soon."""
        if self._obey_timer is None:
            loop = asyncio.get_running_loop()
            self._obey_timer = loop.call_later(OBEY_S, self._check_obedience, self.link.ordered)

    def _check_obedience(self, number: int) -> None:
        self._obey_timer = None
        if self.link.arrived < number:
            self._revive()
        elif self.link.arrived < self.link.ordered:
            self.expect_obedience()

    def _revive(self) -> None:
        """Kill the keeper if it hangs; ``_keep`` starts it again."""
        loop = asyncio.get_running_loop()
        if self._tending is not None and loop.time() >= self._revived_at + REVIVE_PAUSE_S:
            self._revived_at = loop.time()
            task = loop.create_task(self._try_to_revive())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _try_to_revive(self) -> None:
        experiment, name = self._platform.context.experiment_id, self.keeper.host.name
        logger.warning("keeper of %s on %s does not answer", experiment, name)
        try:
            await self.keeper.revive()
        except (OSError, ServiceError) as error:
            logger.warning("keeper of %s on %s could not be restarted: %s", experiment, name, error)

    async def stop(self) -> None:
        """Tend the keeper no longer; it goes on."""
        for timer in (self._timer, self._lease_timer, self._obey_timer):
            if timer is not None:
                timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def dismiss(self, *, patient: bool) -> str | None:
        """Have the keeper stop its trials and exit. Return what could not be done, as one sentence.

        ``patient``: wait for the next call of a keeper that may run a lost job, since this is the last chance
        to tell the keeper to stop it.
        """
        await self.desk.dismiss(FAREWELL_S if patient and self._may_run_given_up() else 0.0)
        await self.stop()
        try:
            await self.keeper.end(told=self.link.ready)
        except (OSError, ServiceError) as error:
            sentence = f"the keeper on {self.keeper.host.name} could not be ended: {error}"
            logger.warning("%s", sentence)
            return sentence
        return None

    def _may_run_given_up(self) -> bool:
        """Check whether a job may run there that counts as lost: only the keeper can stop it."""
        if self.keeper.passing or self.link.instance is None:
            return False
        return not self.link.ready or any(self.link.is_astray(job_id) for job_id in self.jobs)

    # ---- keeping it running -------------------------------------------------------------------------------

    def _tend(self) -> None:
        """Keep the keeper running from now on."""
        loop = asyncio.get_running_loop()
        if self._tending is not None:
            self._tending.cancel()
        else:
            self._heard_at = loop.time()
            self._listen()
        self._tending = loop.create_task(self._keep(), name=f"{self._platform.context.experiment_id}:keeper")
        self._tasks.add(self._tending)
        self._tending.add_done_callback(self._tasks.discard)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        first, longest = PAUSES_S
        pause = 0.0
        while True:
            began = loop.time()
            try:
                trouble = await self._run_keeper()
            except HostGone as gone:
                self._platform.host_gone(self, gone)
                return
            if self.desk.dismissed:
                return
            if trouble != self.trouble:
                name = self.keeper.host.name
                logger.warning("keeper of %s on %s: %s", self._platform.context.experiment_id, name, trouble)
            self.trouble = trouble
            lived = loop.time() - began >= SHORT_LIFE_S
            pause = 0.0 if lived else min(max(first, 2 * pause), longest)
            self._platform.reasons_changed()
            if pause:
                await asyncio.sleep(pause)  # back-off

    async def _run_keeper(self) -> str:
        """Start it if it does not run, and return when it has ended: what is to be said of that."""
        try:
            reach = await self.keeper.reach()
        except (OSError, ServiceError) as error:
            return self._what_for("its machine cannot be reached", error)
        if not self.keeper.passing:
            self._written += 1
            self.desk.turn = f"{self._known.m_epoch}.{self._written}"
        try:
            await self.keeper.write_manager(self._manager(reach))  # tells, too, if its disk takes no writing
        except (OSError, ServiceError) as error:
            return self._what_for("it cannot be told where the server is", error)
        try:
            await self.keeper.keep()
        except HostGone:
            raise
        except (OSError, ServiceError) as error:
            return self._what_for("it could not be started", error)
        return "it has ended and is started again"

    def _what_for(self, failed: str, error: Exception) -> str:
        """What could not be done; a host that is yet to be made has its own sentences."""
        return str(error) if self.keeper.passing else f"{failed}: {error}"

    def _manager(self, reach: Reach) -> Mapping[str, Any]:
        path = PATH.format(experiment_id=self._platform.context.experiment_id, keeper_id=self.id)
        urls = [url.rstrip("/") + path for url in reach.urls]
        token = with_turn(self._token, self.desk.turn)
        return {
            "urls": urls,
            "token": token,
            "db_id": self._known.db_id,
            "fingerprint": reach.fingerprint,
            "authorities": reach.authorities,
        }

    def _listen(self) -> None:
        """One timer per keeper: it is set anew only when it goes off."""
        loop = asyncio.get_running_loop()
        limit = self._platform.context.silent_after.total_seconds()
        left = self._heard_at + limit - loop.time()
        if left <= 0:
            left = limit
            if not self._silent and not (self.keeper.passing and self.link.instance is None):
                self._silent = True
                reason = f"no word from the keeper on {self.keeper.host.name} for {limit:g} s"
                if self.trouble is not None:
                    reason += f": {self.trouble}"
                self._platform.put([KeeperSilent(keeper_id=self.id, reason=reason)])
                self._platform.reasons_changed()
            self._revive()
            self._tend()
        self._timer = loop.call_later(left, self._listen)

    def _watch_lease(self, lease: timedelta) -> None:
        """Again one timer: once by its lease nothing can run here any more, what is open is lost."""
        loop = asyncio.get_running_loop()
        patience = lease.total_seconds() * LEASE_CLOCKS + LEASE_KILL_S
        answered_at = self.desk.answered_at
        due = answered_at + patience
        if due <= loop.time():
            due = loop.time() + patience
            if self._lapsed != answered_at:
                self._lapsed = answered_at
                name, limit = self.keeper.host.name, f"{lease.total_seconds():g} s"
                reason = f"the keeper on {name} was silent for so long that its lease ({limit}) is over"
                self._platform.put(self.link.give_up(reason))
        self._lease_timer = loop.call_at(due, self._watch_lease, lease)
