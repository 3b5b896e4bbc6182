"""Server process: the product's runner, service, hub and door, on a loop that can be killed."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.core.managing.clock import SteadyClock
from nnimgr.core.managing.reopening import opening_facts
from nnimgr.core.running.runner import ExperimentRunner, first_error
from nnimgr.core.running.search import Search
from nnimgr.dispatcher import messages as m
from nnimgr.rules.state import ExperimentState
from nnimgr.rules.validate import validate
from nnimgr.store.errors import StoreError, StoreLocked
from tests.simulation.copies import SimStore
from tests.simulation.dispatcher import SimChild
from tests.simulation.kernel import Clock
from tests.simulation.loop import SimLoop
from tests.simulation.network import Exchange
from tests.simulation.service import SimService
from tests.simulation.store import SimWriter
from training_services.base import ExperimentContext, Gang, TrainingService
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import KeeperHub
from training_services.placement.ledger import HostLedger
from training_services.tools import ServiceTools

if TYPE_CHECKING:
    from tests.simulation.world import World

RESTART_S = 1.0  # NNIManager's pause after a failed commit


class Server:
    """One start of the server; ``runner`` is None while none runs."""

    def __init__(self, world: World, clock: Clock, number: int) -> None:
        self._world, self._kernel, self._clock = world, world.kernel, clock
        self.name = f"server-{number}"
        self.alive = True
        self.runner: ExperimentRunner | None = None
        self.children: dict[str, SimChild] = {}
        self._writer: SimWriter | None = None
        self._hub = KeeperHub()
        self._door = KeeperDoor(self._hub)
        self._ledger = HostLedger()
        self.loop = SimLoop(self._kernel, clock, self._failed)  # type: ignore[abstract]
        self.spawn(self._main())

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        return self.loop.create_task(work)

    def _failed(self, sentence: str) -> None:
        self._kernel.fail(f"{self.name}: {sentence}")

    # ---- life and death -----------------------------------------------------------------------------------

    async def _main(self) -> None:
        """Keep the experiment running, as NNIManager does."""
        self._kernel.say(self.name, "starts")
        while True:
            writer = self._writer = SimWriter(self._world.store, self.die)
            try:
                state = await writer.open()
            except StoreLocked as refusal:
                self._kernel.fault("second server", self.name, "%s", refusal)
                self._gone()
                return
            self._world.serves(self)
            try:
                await self._run(state, writer)
            except Exception as group:
                error = first_error(group)
                if not isinstance(error, StoreError):
                    text = "".join(traceback.format_exception(error))
                    self._kernel.fail(f"{self.name}: the runner failed: {text}")
                    return
                self.runner = None
                self._kernel.say(self.name, "restarts its runner: %s", error)
                await asyncio.sleep(RESTART_S)
            else:
                self._kernel.say(self.name, "has closed")
                self._world.check_log(state)
                self.end()
                return

    async def _run(self, state: ExperimentState, writer: SimWriter) -> None:
        opening = opening_facts(state, m_epoch=writer.m_epoch, missing=writer.missing)
        if not state.id:
            opening.insert(0, self._world.created)
        runner = self.runner = ExperimentRunner(
            state=state,
            writer=writer,
            make_service=self._service,
            make_search=self._search,
            clock=SteadyClock(self._clock.wall(), after=state.last_at, seconds=self._clock.monotonic),
            on_turn=validate,
            opening=opening,
        )
        await runner.run()

    def die(self, when: str) -> None:
        """Die as by kill -9."""
        if self.alive:
            self._kernel.fault("server crash", self.name, "%s", when)
            self.end()

    def end(self) -> None:
        """End the process."""
        self._gone()
        self._world.server_ended()

    def _gone(self) -> None:
        self.alive = self.loop.alive = False
        self.runner = None
        if self._writer is not None:
            self._writer.release()

    def close(self) -> None:
        """End as requested: its trials continue."""
        if self.runner is not None:
            self._kernel.fault("server stopped", self.name)
            self.runner.close()

    # ---- keepers ------------------------------------------------------------------------------------------

    def accept(self, exchange: Exchange) -> None:
        self.spawn(self._door(exchange.scope, exchange.receive, exchange.send))

    def _service(self, state: ExperimentState) -> TrainingService:
        world = self._world
        context = ExperimentContext(
            experiment_id=state.id,
            directory=Path("/"),
            trial_command="true",
            trial_code_directory=Path("/"),
            trial_gpu_number=world.gpus,
            python="python3",
            environ={},
            silent_after=timedelta(seconds=world.silent_after_s),
            lease=None if world.lease_s is None else timedelta(seconds=world.lease_s),
            gang=_gang(world),
        )
        tools = ServiceTools(hub=self._hub, ledger=self._ledger)
        store = SimStore(world.copies, self.die)
        return SimService(context, tools, world.hosts, store)

    # ---- algorithms ---------------------------------------------------------------------------------------

    def _search(self, state: ExperimentState, runner: ExperimentRunner) -> Search:
        return Search(
            tuner=_start("tuner", state),
            new_tuner=lambda state: _start("tuner", state),
            assessor=_start("assessor", state) if self._world.assessed else None,
            scheduler=self._scheduler(state) if self._world.scheduled else None,
            spawn=self._spawn_child,
            post=runner.post,
            pending_metrics=runner.pending_metrics,
        )

    def _scheduler(self, state: ExperimentState) -> m.Start:
        return replace(_start("scheduler", state), resources=dict.fromkeys(state.limits.resizable, 1))

    def _spawn_child(
        self, start: m.Start, on_message: Callable[[m.FromChild], None], on_exit: Callable[[str], None]
    ) -> SimChild:
        told = partial(self._world.witness.log.confirmations.told, start.role)
        child = SimChild(self._kernel, self._world.health, start, on_message, on_exit, told=told)
        self.children[start.role] = child
        return child


def _gang(world: World) -> Gang | None:
    if world.nodes == 1:
        return None
    return Gang(processes=None, max_restarts=0, nodes=world.nodes, least_nodes=world.least_nodes)


def _start(role: str, state: ExperimentState) -> m.Start:
    return m.Start(
        role=role,
        name="Random",
        class_name=None,
        code_directory=None,
        class_args={},
        search_space=state.search_space,
        experiment_id=state.id,
        database="",
        rebuild_to=0,
        checkpoint_directory="",
        seed=1,
        since=state.tuner_number,
    )
