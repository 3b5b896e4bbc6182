"""Task that starts the keeper of one host, and restarts it whenever it has ended."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from training_services.addresses import Reach
from training_services.base import KnownKeepers, ServiceError
from training_services.keepers.host import HostGone, KeeperHost
from training_services.keepers.hub import KeeperDesk, with_turn
from trial_keeper.wire import PATH

__all__ = ["Upkeep"]

logger = logging.getLogger(__name__)

SHORT_LIFE_S = 1.0  # seconds; a keeper that ended sooner is restarted only after a pause
REVIVE_PAUSE_S = 10.0  # pause between two attempts to restart a keeper: a slow machine needs time to start it
PAUSES_S = (0.05, 5.0)  # first and longest pause before a restart


class Upkeep:
    """Task that starts the keeper of one host, and restarts it whenever it has ended.

    ``on_trouble`` is called after each end of the keeper and each failed start. ``on_gone`` is called when
    the host no longer exists.
    """

    def __init__(
        self,
        host: KeeperHost,
        desk: KeeperDesk,
        *,
        experiment_id: str,
        token: str,
        known: KnownKeepers,
        on_trouble: Callable[[], None],
        on_gone: Callable[[HostGone], None],
    ) -> None:
        self.trouble: str | None = None  # sentence that says why the keeper does not run
        self._host, self._desk, self._experiment_id = host, desk, experiment_id
        self._token, self._known = token, known
        self._on_trouble, self._on_gone = on_trouble, on_gone
        self._task: asyncio.Task[None] | None = None
        # all tasks that start or restart this keeper, including replaced ones that have not ended yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._revived_at = float("-inf")  # on the loop's clock

    @property
    def begun(self) -> bool:
        """True after ``begin``: the server keeps the keeper running."""
        return self._task is not None

    def begin(self) -> None:
        """Start the task that keeps the keeper running. It replaces an earlier task."""
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(
            self._keep(), name=f"{self._experiment_id}:keeper"
        )
        self._tasks.add(self._task)
        self._task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel all tasks. The keeper itself continues."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def revive(self) -> None:
        """Kill the keeper, because it may hang. The task that ``begin`` started then starts it again."""
        loop = asyncio.get_running_loop()
        if self._task is not None and loop.time() >= self._revived_at + REVIVE_PAUSE_S:
            self._revived_at = loop.time()
            task = loop.create_task(self._try_to_revive())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _try_to_revive(self) -> None:
        experiment, name = self._experiment_id, self._host.host.name
        logger.warning("keeper of %s on %s does not answer", experiment, name)
        try:
            await self._host.revive()
        except (OSError, ServiceError) as error:
            logger.warning("keeper of %s on %s could not be restarted: %s", experiment, name, error)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        first, longest = PAUSES_S
        pause = 0.0
        while True:
            began = loop.time()
            try:
                trouble = await self._run_keeper()
            except HostGone as gone:
                self._on_gone(gone)
                return
            if self._desk.dismissed:
                return
            if trouble != self.trouble:
                logger.warning("keeper of %s on %s: %s", self._experiment_id, self._host.host.name, trouble)
            self.trouble = trouble
            lived = loop.time() - began >= SHORT_LIFE_S
            pause = 0.0 if lived else min(max(first, 2 * pause), longest)
            self._on_trouble()
            if pause:
                await asyncio.sleep(pause)  # back-off

    async def _run_keeper(self) -> str:
        """Start the keeper if it does not run, and wait until it ends.

        Return one sentence that says why the start failed, or how the keeper ended.
        """
        name = self._host.host.name
        try:
            reach = await self._host.reach()
        except (OSError, ServiceError) as error:
            return self._what_for(f"there is no connection to {name}", error)
        if not self._host.passing:
            self._desk.turn = secrets.token_hex(8)
        try:
            await self._host.write_manager(self._manager(reach))  # fails if the disk is full
        except (OSError, ServiceError) as error:
            return self._what_for(f"the keeper on {name} could not be told the server's address", error)
        try:
            await self._host.keep()
        except HostGone:
            raise
        except (OSError, ServiceError) as error:
            return self._what_for(f"nnimgr's keeper could not be started on {name}", error)
        return f"nnimgr's keeper on {name} has ended and is being restarted"

    def _what_for(self, failed: str, error: Exception) -> str:
        """Return a sentence for the notice about an error. ``failed`` says what did not work.

        For a host that is created on demand, such as a pod, return only the error's own text.
        """
        return str(error) if self._host.passing else f"{failed}: {error}"

    def _manager(self, reach: Reach) -> Mapping[str, Any]:
        path = PATH.format(experiment_id=self._experiment_id, keeper_id=self._host.keeper_id)
        urls = [url.rstrip("/") + path for url in reach.urls]
        token = with_turn(self._token, self._desk.turn)
        return {
            "urls": urls,
            "token": token,
            "db_id": self._known.db_id,
            "fingerprint": reach.fingerprint,
            "authorities": reach.authorities,
        }
