"""Simulated user who pins checkpoints, takes pins back, and asks trials to save their state."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from nnimgr.core.running.requests import RequestRefused, UnknownTrial
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_of_job

if TYPE_CHECKING:
    from tests.simulation.world import World

ACTS = 20
RUNNING = f.TrialStatus.RUNNING


class CheckpointUser:
    """Simulated user of checkpoints, with a random source of its own, so that other lives do not change."""

    def __init__(self, world: World) -> None:
        self._world, self._kernel = world, world.kernel
        self._chance = random.Random(f"checkpoints {world.seed}")
        for _ in range(ACTS):
            self._kernel.at(self._chance.uniform(1.0, world.chaos_s), self._act)

    def _ask(self, what: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._kernel.say("user", "%s", what)

        async def ask() -> None:
            try:
                await work()
            except (RequestRefused, UnknownTrial) as refusal:
                self._kernel.say("user", "%s is refused: %s", what, refusal)

        self._world.server.spawn(ask())

    def _act(self) -> None:
        server = self._world.server
        runner = server.runner if server.alive else None
        if runner is None or not runner.state.id:
            return
        if self._chance.random() < 0.4:
            self._ask_to_save(runner)
            return
        pins = [(trial_id, each.origin) for trial_id, pinned in runner.state.pins.items() for each in pinned]
        pinned = not pins or self._chance.random() < 0.6
        found = self._saved() if pinned else pins
        if not found:
            return
        trial_id, origin = self._chance.choice(found)
        self._ask(
            f"{'pins' if pinned else 'unpins'} checkpoint {origin.number} of {trial_id}-{origin.attempt}",
            lambda: runner.pin_checkpoint(
                trial_id, origin.attempt, origin.number, pinned=pinned, saved=origin
            ),
        )

    def _ask_to_save(self, runner: ExperimentRunner) -> None:
        running = [name for name, trial in runner.state.trials.items() if trial.status is RUNNING]
        if running:
            trial_id = self._chance.choice(running)
            self._ask(f"asks trial {trial_id} to save", lambda: runner.save_trial(trial_id))

    def _saved(self) -> list[tuple[str, f.Origin]]:
        """Return the checkpoints that the database has, with their trials, which may have ended."""
        found: dict[tuple[str, int], f.Origin] = {}
        places: dict[str, str] = {}
        for _, _, fact in self._world.store.log:
            match fact:
                case f.JobPlaced():
                    places[fact.job_id] = fact.place.keeper_id
                case f.CheckpointReported(usable=True):
                    found[fact.job_id, fact.number] = f.Origin(
                        attempt=trial_of_job(fact.job_id)[1],
                        number=fact.number,
                        keeper_id=places[fact.job_id],
                        step=fact.step,
                        position=0,
                        reports=fact.reports or 0,
                    )
                case f.CheckpointsPruned(keeper_id=str()):
                    for name in [name for name in found if name[0] == fact.job_id]:
                        if name[1] <= fact.up_to and name[1] not in fact.keep:
                            del found[name]
        return [(trial_of_job(job_id)[0], origin) for (job_id, _), origin in found.items()]
