"""The runners of one server, kept running.

A runner that ends because its database cannot be written is started anew from it, with back-off; one that
ends by a fault of ours shows ERROR.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from nnimgr.core.managing.assembly import Assembly
from nnimgr.core.managing.clock import SteadyClock
from nnimgr.core.managing.experiments import ExperimentConflict
from nnimgr.core.managing.index_notes import nni_status
from nnimgr.core.managing.reopening import opening_facts
from nnimgr.core.running.runner import ExperimentRunner, first_error
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from nnimgr.store.errors import StoreError, empty_database
from nnimgr.store.writer import ExperimentWriter

__all__ = ["Held", "Supervision"]

logger = logging.getLogger(__name__)

RESTART_S = (1.0, 30.0)  # first and longest wait before a runner whose commit failed is started anew


@dataclass(slots=True)
class Held:
    """An experiment that this server has open."""

    id: str
    directory: Path
    runner: ExperimentRunner | None = None  # None while it is started anew
    trouble: str | None = None  # why there is no runner
    status: str = ""
    number: int = 0  # of its last fact
    awaits_silent: bool = False  # what may run yet on silent machines is to be stopped when they are heard
    task: asyncio.Task[None] = field(init=False)

    @property
    def nni_status(self) -> str:
        """The status under NNI's name, by which nothing of a STOPPED one runs any more; empty: not known."""
        if self.runner is None:
            return self.status
        state = self.runner.state
        stops = state.status is f.ExperimentStatus.STOPPED and self.status != f.ExperimentStatus.STOPPED
        return "STOPPING" if stops else nni_status(state.status, state.drain)


class Supervision:
    """Starts runners and keeps them running. ``assembly`` makes what they need.

    ``free``: before a database is opened, close what reads it. ``on_turn``: an experiment has had a turn;
    ``on_end``: its runner has ended.
    """

    def __init__(
        self,
        *,
        assembly: Assembly,
        clock: Callable[[], datetime],
        free: Callable[[str], Awaitable[None]],
        on_turn: Callable[[Held, ExperimentState], None],
        on_end: Callable[[Held], None],
    ) -> None:
        self._assembly, self._clock = assembly, clock
        self._free, self._on_turn, self._on_end = free, on_turn, on_end
        self._held: dict[str, Held] = {}
        self._closing = False

    def __contains__(self, experiment_id: str) -> bool:
        return experiment_id in self._held

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def get(self, experiment_id: str) -> Held | None:
        return self._held.get(experiment_id)

    async def close(self) -> None:
        """Let go of all experiments; their trials run on."""
        self._closing = True
        for held in self:
            _end(held)
        await asyncio.gather(*(held.task for held in self), return_exceptions=True)

    async def start(
        self,
        experiment_id: str,
        directory: Path,
        created: Sequence[f.Fact] = (),
        *,
        resumed: bool = False,
    ) -> None:
        """Open the database, run a runner on it, and return once its first turn is over.

        ``created``: the first facts of a new experiment, which are committed together.

        Raises what ends the runner before; a new experiment is dropped then, another one tried again later.
        """
        await self.forget(experiment_id)
        try:
            runner = await self._make_runner(directory, created, resumed=resumed)
            self._supervise(experiment_id, directory, runner=runner)
            await runner.opened()
        except Exception as error:
            await self.forget(experiment_id)
            if not created:
                self._supervise(experiment_id, directory, trouble=str(error))
            raise

    async def forget(self, experiment_id: str) -> None:
        """End the supervision of an experiment that has no runner which works."""
        held = self._held.pop(experiment_id, None)
        if held is not None:
            held.task.cancel()
            await asyncio.wait({held.task})

    async def release(self, experiment_id: str) -> None:
        """Close the database of a stopped experiment."""
        held = self._held.pop(experiment_id, None)
        if held is not None:
            _end(held)
            await asyncio.wait({held.task})

    # ---- beneath ------------------------------------------------------------------------------------------

    async def _make_runner(
        self, directory: Path, created: Sequence[f.Fact] = (), *, resumed: bool = False
    ) -> ExperimentRunner:
        await self._free(directory.name)
        writer = ExperimentWriter(directory)
        try:
            state = await writer.open()
            if not created and not state.id:
                raise empty_database(writer.path)
            if created and state.id:
                raise ExperimentConflict(f"there is another experiment {state.id} in {directory.parent}")
            opened = opening_facts(state, m_epoch=writer.m_epoch, missing=writer.missing, resumed=resumed)
            opening = [*created, *opened]
            return ExperimentRunner(
                state=state,
                writer=writer,
                make_service=lambda state: self._assembly.service(state, directory),
                make_search=lambda state, runner: self._assembly.search(state, directory, runner),
                clock=SteadyClock(self._clock(), after=state.last_at),
                on_turn=self._turned,
                opening=opening,
            )
        except BaseException:
            await writer.close()
            raise

    def _turned(self, state: ExperimentState) -> None:
        held = self._held.get(state.id)
        if held is not None:
            self._on_turn(held, state)

    def _supervise(
        self,
        experiment_id: str,
        directory: Path,
        *,
        runner: ExperimentRunner | None = None,
        trouble: str | None = None,
    ) -> None:
        """Keep an experiment running from now on; without a runner one is made after a while."""
        held = self._held[experiment_id] = Held(experiment_id, directory, runner=runner, trouble=trouble)
        held.task = asyncio.get_running_loop().create_task(
            self._keep_running(held), name=f"{experiment_id}:runner"
        )

    async def _keep_running(self, held: Held) -> None:
        """A failed commit is tried again from the database, with back-off; a fault of ours is an ERROR."""
        loop = asyncio.get_running_loop()
        first, longest = RESTART_S
        delay = first
        while not self._closing:
            began_at = loop.time()
            try:
                if held.runner is None:
                    await asyncio.sleep(delay)  # back-off
                    delay = min(2 * delay, longest)
                    held.runner = await self._make_runner(held.directory)
                    held.trouble = None
                await held.runner.run()
                return
            except Exception as group:
                error = first_error(group)
                held.runner = None
                if loop.time() - began_at > longest:
                    delay = first
                if isinstance(error, StoreError):
                    held.trouble = str(error)
                    logger.error("experiment %s: %s", held.id, error)
                    continue
                held.trouble = f"a fault of nnimgr ended it: {type(error).__name__}: {error}"
                held.status = "ERROR"
                logger.error("experiment %s: its runner has failed", held.id, exc_info=group)
                return
            finally:
                self._on_end(held)


def _end(held: Held) -> None:
    """After the present turn."""
    if held.runner is not None:
        held.runner.close()
    else:
        held.task.cancel()
