"""Keeps the runners of one server running. A runner runs one experiment.

A runner that ended because its database cannot be written is restarted from the database, with back-off.
After an internal error of a runner, the experiment has the status ERROR.
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
from nnimgr.core.managing.followers import Followers
from nnimgr.core.managing.index_notes import Draining, nni_status
from nnimgr.core.managing.reopening import opening_facts
from nnimgr.core.managing.tuner_change import check_tuner
from nnimgr.core.running.runner import LIVE, ExperimentRunner, first_error
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from nnimgr.store.errors import DatabaseDeleted, StoreError, empty_database
from nnimgr.store.writer import ExperimentWriter

__all__ = ["Held", "Supervision"]

logger = logging.getLogger(__name__)

CLOSING_SHOWN_AFTER_S = 2.0
RESTART_S = (1.0, 30.0)  # first and longest wait before a runner is restarted after a failed commit


@dataclass(slots=True)
class Held:
    """Experiment that this server has open, with its runner."""

    id: str
    directory: Path
    followers: Followers | None = None
    runner: ExperimentRunner | None = None  # None while the runner is being restarted
    trouble: str | None = None  # error that explains the missing runner
    status: f.ExperimentStatus | None = None  # None: unknown
    deleted: bool = False  # True: its database was deleted while its runner ran
    number: int = 0  # number of the last fact
    awaits_silent: bool = False  # True while trials on silent machines are not stopped yet
    released: bool = False  # True: its runner is not restarted any more
    task: asyncio.Task[None] = field(init=False)

    @property
    def nni_status(self) -> str:
        """Return NNI's name for the experiment's status; "" if the status is unknown.

        NNI uses STOPPED only after all trials have ended, and STOPPING for a stop in progress.
        """
        if self.runner is None:
            return self.status or ""
        state = self.runner.state
        stops = state.status is f.ExperimentStatus.STOPPED and self.status is not f.ExperimentStatus.STOPPED
        return Draining.USER if stops else nni_status(state.status, state.drain)


class Supervision:
    """Starts a runner for each open experiment, and restarts failed runners.

    ``assembly`` builds the parts of a runner. ``free`` closes the readers of a database before a runner opens
    the database. ``on_turn`` is called after each turn (pass of a runner's loop), and ``on_end`` after a
    runner has ended.
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
        """Close all experiments. Their trials continue. If that takes long, log which ones are waited for."""
        self._closing = True
        for held in self:
            _end(held)
        ends = asyncio.gather(*(held.task for held in self), return_exceptions=True)
        await asyncio.wait({ends}, timeout=CLOSING_SHOWN_AFTER_S)
        if unclosed := self.unclosed:
            logger.warning(
                "the shutdown waits for experiment %s to close; another SIGTERM or Ctrl-C ends the wait",
                ", ".join(unclosed),
            )
        await ends

    @property
    def unclosed(self) -> list[str]:
        """Return the ids of the experiments whose runners have not ended."""
        return [held.id for held in self if not held.task.done()]

    async def start(
        self,
        experiment_id: str,
        directory: Path,
        created: Sequence[f.Fact] = (),
        *,
        resumed: bool = False,
    ) -> None:
        """Open the experiment's database, start a runner, and return after the first turn (pass of the
        runner's loop).

        ``created``: first facts of a new experiment, committed together.

        Raise the error that ends the runner before its first turn. After this error, a new experiment is
        dropped, and an existing experiment is retried later.
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
        """Drop an experiment that has no working runner, and cancel the restart of its runner."""
        held = self._held.pop(experiment_id, None)
        if held is not None:
            held.task.cancel()
            await asyncio.wait({held.task})

    def forget_status(self, experiment_id: str) -> None:
        """Have the experiment's status reported after its next turn, even if it is the same as before.

        Call it after a change of the index entry, which would otherwise keep a status that is out of date.
        """
        if experiment_id in self._held:
            self._held[experiment_id].status = None

    async def release(self, experiment_id: str) -> None:
        """Close the runner and the database of a stopped experiment."""
        held = self._held.pop(experiment_id, None)
        if held is not None:
            _end(held)
            await asyncio.wait({held.task})

    async def let_go(self, experiment_id: str) -> bool:
        """Release an experiment, unless it runs. Return False if it runs, or if its runner is restarted."""
        held = self._held.get(experiment_id)
        if held is not None and (held.runner is None or held.runner.state.status in LIVE):
            return False
        await self.release(experiment_id)
        return True

    # ---- beneath ------------------------------------------------------------------------------------------

    async def _make_runner(
        self, directory: Path, created: Sequence[f.Fact] = (), *, resumed: bool = False
    ) -> ExperimentRunner:
        await self._free(directory.name)
        writer = ExperimentWriter(directory)
        try:
            state = await writer.open(new=bool(created))
            if not created and not state.id:
                raise empty_database(writer.path)
            if created and state.id:
                raise ExperimentConflict(f"there is another experiment {state.id} in {directory.parent}")
            opened = opening_facts(state, m_epoch=writer.m_epoch, missing=writer.missing, resumed=resumed)
            opening = [*created, *opened]
            runner = ExperimentRunner(
                state=state,
                writer=writer,
                make_service=lambda state: self._assembly.service(state, directory, runner.config),
                make_search=lambda state, runner: self._assembly.search(state, directory, runner),
                clock=SteadyClock(self._clock(), after=state.last_at),
                on_turn=self._turned,
                opening=opening,
                check_tuner=lambda tuner: check_tuner(tuner, directory),
            )
            return runner
        except BaseException:
            await writer.close()
            raise

    def _turned(self, state: ExperimentState) -> None:
        held = self._held.get(state.id)
        if held is not None:
            self._on_turn(held, state)
            if not state.jobs or (state.detached and state.stop_requested):
                # This experiment submits no earlier jobs again, so other experiments need not wait for it.
                self._assembly.holds_nothing(state.id)
            if held.followers is not None:
                held.followers.turned(state)

    def _supervise(
        self,
        experiment_id: str,
        directory: Path,
        *,
        runner: ExperimentRunner | None = None,
        trouble: str | None = None,
    ) -> None:
        """Register an experiment as open, and start a task that keeps its runner running.

        Without a ``runner``, the task starts a runner after a wait.
        """
        held = self._held[experiment_id] = Held(experiment_id, directory, runner=runner, trouble=trouble)
        if runner is not None:
            held.followers = self._assembly.followers(directory, runner)
        held.task = asyncio.get_running_loop().create_task(
            self._keep_running(held), name=f"{experiment_id}:runner"
        )

    async def _keep_running(self, held: Held) -> None:
        """Run the experiment's runner until it ends.

        After a failed commit, restart the runner from the database, with back-off. If the database was
        deleted meanwhile, close the experiment. After an internal error, set the status to ERROR.
        """
        loop = asyncio.get_running_loop()
        first, longest = RESTART_S
        delay = first
        while not (self._closing or held.released):
            began_at = loop.time()
            try:
                if held.runner is None:
                    await asyncio.sleep(delay)  # back-off
                    delay = min(2 * delay, longest)
                    held.runner = await self._make_runner(held.directory)
                    held.followers = self._assembly.followers(held.directory, held.runner)
                    held.trouble = None
                await held.runner.run()
                return
            except Exception as group:
                error = first_error(group)
                held.deleted = held.runner is not None and isinstance(error, DatabaseDeleted)
                held.runner = None
                if loop.time() - began_at > longest:
                    delay = first
                if isinstance(error, StoreError):
                    held.trouble = str(error)
                    logger.error("experiment %s: %s", held.id, error)
                    if not held.deleted:  # a database that is not there when it is opened may still come
                        continue
                    self._held.pop(held.id, None)
                    return
                held.trouble = f"a bug in nnimgr stopped the experiment: {type(error).__name__}: {error}"
                held.status = f.ExperimentStatus.ERROR
                logger.error("experiment %s: its runner has failed", held.id, exc_info=group)
                return
            finally:
                self._on_end(held)
                self._assembly.holds_nothing(held.id)
                if held.followers is not None:
                    await held.followers.close()


def _end(held: Held) -> None:
    """Close the experiment's runner after its current turn. No other runner is started, even if the closing
    fails. Without a runner, the planned restart is canceled.
    """
    held.released = True
    if held.runner is not None:
        held.runner.close()
    else:
        held.task.cancel()
