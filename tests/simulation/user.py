"""Simulated user: stops trials and the experiment, resumes it, adds trials, changes the concurrency."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nnimgr.core.running.requests import RequestRefused, UnknownTrial
from nnimgr.core.running.runner import LIVE, ExperimentRunner
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from tests.simulation.checkpoint_user import CheckpointUser

if TYPE_CHECKING:
    from tests.simulation.world import World

PAUSE_S = 1.0


class User:
    """Simulated user. ``wants_it``: the experiment must run to its end."""

    def __init__(self, world: World) -> None:
        self._world, self._kernel = world, world.kernel
        self.wants_it = True
        chance = self._kernel.random
        acts = chance.randint(1, 8)
        for _ in range(acts + 8 if world.saving else acts):
            self._kernel.at(chance.uniform(1.0, world.chaos_s), self._act)
        self._kernel.at(PAUSE_S, self._tend)
        if world.best:
            CheckpointUser(world)

    def keeper_greets(self) -> None:
        """Perhaps stop a trial, because waiting jobs are about to be placed."""
        if self._world.store.writing and self._kernel.likely(0.6):
            self._stop_some_trial()

    def job_placed(self, trial_id: str) -> None:
        """Perhaps stop the trial, because its shim is about to start."""
        saving = self._world.saving
        if self._kernel.likely(0.5 if saving or trial_id in self._world.witness.endless() else 0.1):
            delay = self._kernel.random.choice([0.0, 0.02, 0.5, 2.0, 8.0])
            pauses = saving and self._kernel.random.random() < 0.8
            self._kernel.at(delay, self._pause_trial if pauses else self._stop_trial, trial_id)

    def _ask(self, what: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        server = self._world.server
        self._kernel.say("user", "%s", what)

        async def ask() -> None:
            try:
                await work()
            except (RequestRefused, UnknownTrial) as refusal:
                self._kernel.say("user", "%s is refused: %s", what, refusal)
            else:
                self._kernel.say("user", "%s is accepted", what)

        server.spawn(ask())

    def _request(self, runner: ExperimentRunner, what: str, fact: f.Fact) -> None:
        self._ask(what, lambda: runner.request(lambda _: (fact,)))

    @property
    def _runner(self) -> ExperimentRunner | None:
        return self._world.server.runner if self._world.server.alive else None

    def _act(self) -> None:
        runner, chance = self._runner, self._kernel.random
        # no life ends before a keeper has crashed
        if runner is None or not self._kernel.counts["keeper crash"]:
            self._kernel.at(PAUSE_S, self._act)
            return
        if self._world.far and self._world.lease_s is None and chance.random() < 0.5:
            self._lose_some_trial(runner)
            return
        if self._world.copying and chance.random() < 0.3:
            self._remove_machine(runner)
            return
        acts = ["stop", "stop", "pause", "pause", "add", "config", "space", "limit", "end"]
        act = chance.choice([*acts, *["pause", "end"] * 3] if self._world.saving else acts)
        match act:
            case "stop":
                self._stop_some_trial()
            case "pause":
                self._pause_some_trial(runner)
            case "space":
                space = {"x": {"_type": "uniform", "_value": [0, chance.randint(2, 9)]}}
                self._ask("replaces the search space", lambda: runner.change_config({"searchSpace": space}))
            case "limit":
                limit = chance.choice(["3s", "20s", None])
                self._ask(
                    f"limits trials to {limit}", lambda: runner.change_config({"maxTrialDuration": limit})
                )
            case "add":
                self._ask("adds a trial", lambda: runner.add_trial({"x": chance.randint(100, 999)}))
            case "config":
                count = chance.randint(1, 4)
                change = {"trialConcurrency": count}
                self._ask(f"changes concurrency to {count}", lambda: runner.change_config(change))
            case _:
                kind = chance.random()
                detach, save = kind < 0.4, kind > 0.85
                self.wants_it = False
                self._ask(
                    f"stops the experiment, detach={detach}, save={save}",
                    lambda: runner.stop(detach=detach, save=save),
                )
                if chance.random() < 0.8:
                    self._kernel.at(chance.uniform(0.1, 8.0), self._change_mind)

    def _remove_machine(self, runner: ExperimentRunner) -> None:
        """Remove a machine, and add it again later."""
        chance = self._kernel.random
        name = chance.choice(self._world.hosts).name
        self._request(runner, f"removes {name}", f.MachineRemoved(keeper_id=name))
        self._kernel.at(chance.uniform(5.0, 40.0), self._add_machine, name)

    def _add_machine(self, name: str) -> None:
        runner = self._runner
        if runner is None or not runner.state.id:
            self._kernel.at(PAUSE_S, self._add_machine, name)
            return

        def added(state: ExperimentState) -> Sequence[f.Fact]:
            machine = state.machines.get(name)
            left = machine is not None and (machine.removing or machine.gone)
            return (f.MachineAdded(keeper_id=name),) if left else ()

        self._ask(f"adds {name}", lambda: runner.request(added))

    def _change_mind(self) -> None:
        self.wants_it = True

    def _stop_some_trial(self) -> None:
        """Stop a trial that waits for a place, or else any trial."""
        runner = self._runner
        if runner is not None and runner.state.trials:
            waiting = [job.trial_id for job in runner.state.jobs.values() if job.placed is None]
            self._stop_trial(self._kernel.random.choice(waiting or list(runner.state.trials)))

    def _stop_trial(self, trial_id: str) -> None:
        if (runner := self._runner) is not None:

            async def stop() -> None:
                await runner.stop_trial(trial_id)
                self._world.witness.stop_accepted(trial_id)

            self._ask(f"stops trial {trial_id}", stop)

    def _lose_some_trial(self, runner: ExperimentRunner) -> None:
        """Declare a trial on a silent machine lost; if there is none, try again later."""
        unknown = list(runner.state.unknown)
        if unknown:
            trial_id = self._kernel.random.choice(unknown)
            self._ask(f"declares trial {trial_id} lost", lambda: runner.lose_trial(trial_id))
        elif self._kernel.faults:
            self._kernel.at(PAUSE_S, self._act)

    def _pause_some_trial(self, runner: ExperimentRunner) -> None:
        if runner.state.trials:
            self._pause_trial(self._kernel.random.choice(list(runner.state.trials)))

    def _pause_trial(self, trial_id: str) -> None:
        if (runner := self._runner) is not None:
            self._ask(f"pauses trial {trial_id}", lambda: runner.pause_trial(trial_id))

    def _resume_trials(self, runner: ExperimentRunner) -> None:
        """Resume all paused trials."""
        for trial in runner.state.trials.values():
            if trial.target is f.StopKind.PAUSE:
                self._ask(f"resumes trial {trial.id}", partial(runner.resume_trial, trial.id))

    def _tend(self) -> None:
        """Resume the experiment if it must run; at the end, stop the trials that never end by themselves."""
        self._kernel.at(PAUSE_S, self._tend)
        runner = self._runner
        if runner is None or not runner.state.id:
            return
        state = runner.state
        if not self._kernel.faults and state.detached and state.stop_requested:
            self.wants_it = True
        if self.wants_it and state.status not in LIVE and state.status is not f.ExperimentStatus.DONE:
            opened = f.ExperimentOpened(m_epoch=state.m_epoch, resumed=True)
            self._request(runner, "resumes the experiment", opened)
        if self._kernel.faults and state.status is f.ExperimentStatus.DONE and state.budget == 0:
            number = (state.limits.max_trial_number or 0) + self._kernel.random.randint(1, 3)
            change = {"maxTrialNumber": number}
            self._ask(f"wants {number} trials", lambda: runner.change_config(change))
        if not self._kernel.faults or self._kernel.likely(0.1):
            self._resume_trials(runner)
        if not self._kernel.faults:
            for name, machine in state.machines.items():
                if machine.gone:
                    self._add_machine(name)
            for trial_id in self._world.witness.endless():
                if trial_id in state.trials and state.trials[trial_id].target is None:
                    self._stop_trial(trial_id)
