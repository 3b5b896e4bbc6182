"""The user: stops trials and the experiment, resumes it, adds trials, changes how many run at once."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from nnimgr.core import facts as f
from nnimgr.core.requests import RequestRefused
from nnimgr.core.runner import LIVE, ExperimentRunner

if TYPE_CHECKING:
    from tests.simulation.world import World

PAUSE_S = 1.0


class User:
    """Asks again what was not answered. ``wants_it``: the experiment shall run to its end."""

    def __init__(self, world: World) -> None:
        self._world, self._kernel = world, world.kernel
        self.wants_it = True
        chance = self._kernel.random
        for _ in range(chance.randint(1, 5)):
            self._kernel.at(chance.uniform(1.0, world.chaos_s), self._act)
        self._kernel.at(PAUSE_S, self._tend)

    def server_opened(self) -> None:
        """A good moment to be in the way: waiting jobs are about to be placed."""
        if self._kernel.likely(0.3):
            self._kernel.at(self._kernel.random.uniform(0.0, 0.5), self._stop_some_trial)

    def job_placed(self, trial_id: str) -> None:
        """Another: its shim is on its way."""
        if self._kernel.likely(0.08):
            delay = self._kernel.random.choice([0.0, 0.02, 0.5, 2.0])
            self._kernel.at(delay, self._stop_trial, trial_id)

    def _ask(self, what: str, work: Coroutine[Any, Any, Any]) -> None:
        server = self._world.server
        self._kernel.say("user", "%s", what)

        async def ask() -> None:
            try:
                await work
            except RequestRefused as refusal:
                self._kernel.say("user", "%s is refused: %s", what, refusal)
            else:
                self._kernel.say("user", "%s is accepted", what)

        server.spawn(ask())

    @property
    def _runner(self) -> ExperimentRunner | None:
        return self._world.server.runner if self._world.server.alive else None

    def _act(self) -> None:
        runner, chance = self._runner, self._kernel.random
        if runner is None:
            self._kernel.at(PAUSE_S, self._act)
            return
        act = chance.choice(["stop", "stop", "add", "config", "config", "end"])
        match act:
            case "stop":
                self._stop_some_trial()
            case "add":
                self._ask("adds a trial", runner.add_trial({"x": chance.randint(100, 999)}))
            case "config":
                count = chance.randint(1, 4)
                change = {"trialConcurrency": count}
                self._ask(f"changes concurrency to {count}", runner.change_config(change))
            case _:
                detach = chance.random() < 0.4
                self.wants_it = False
                self._ask(f"stops the experiment, detach={detach}", runner.stop(detach=detach))
                if chance.random() < 0.8:
                    self._kernel.at(chance.uniform(0.1, 8.0), self._change_mind)

    def _change_mind(self) -> None:
        self.wants_it = True

    def _stop_some_trial(self) -> None:
        runner = self._runner
        if runner is not None and runner.state.trials:
            self._stop_trial(self._kernel.random.choice(list(runner.state.trials)))

    def _stop_trial(self, trial_id: str) -> None:
        if (runner := self._runner) is not None:
            self._ask(f"stops trial {trial_id}", runner.stop_trial(trial_id))

    def _tend(self) -> None:
        """Resume what shall run; in the end, stop the trials that never end by themselves."""
        self._kernel.at(PAUSE_S, self._tend)
        runner = self._runner
        if runner is None or not runner.state.id:
            return
        state = runner.state
        if not self._kernel.faults and state.detached and state.stop_requested:
            self.wants_it = True
        if self.wants_it and state.status not in LIVE and state.status is not f.ExperimentStatus.DONE:
            opened = f.ExperimentOpened(m_epoch=state.m_epoch, resumed=True)
            self._ask("resumes the experiment", runner.request(lambda _: (opened,)))
        if self._kernel.faults and state.status is f.ExperimentStatus.DONE:
            number = (state.limits.max_trial_number or 0) + self._kernel.random.randint(1, 3)
            change = {"maxTrialNumber": number}
            self._ask(f"wants {number} trials", runner.change_config(change))
        if not self._kernel.faults:
            for trial_id in self._world.witness.endless():
                if trial_id in state.trials and state.trials[trial_id].target is None:
                    self._ask(f"stops the endless trial {trial_id}", runner.stop_trial(trial_id))
