"""Simulated dispatcher child: answers after a delay, judges by the sign of a value, and crashes at random."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nnimgr.dispatcher import messages as m
from tests.simulation.kernel import Kernel

CRASH = 0.03
HEALTHY_S = 8.0  # pause between two crashes of a role: more than three in a row would rightly be ERROR


@dataclass(slots=True)
class Health:
    """Last crash of each role, and the number of the tuner's parameter sets, over all servers."""

    crashed_at: dict[str, float]
    size: int


class SimScheduler:
    """Scheduler that decides at random. After a crash it knows nothing of what happened before."""

    def __init__(
        self, kernel: Kernel, say: Callable[[m.FromChild], None], resources: Mapping[str, float]
    ) -> None:
        self._kernel, self._say, self._resources = kernel, say, resources
        self._saved: dict[str, tuple[int, int]] = {}  # trial -> attempt and number of its newest checkpoint
        self._paused: dict[str, int] = {}  # paused trial -> number of the last fact about it

    def take(self, message: m.ToChild) -> None:
        chance = self._kernel.random
        match message:
            case m.CheckpointSaved():
                self._saved[message.trial_id] = message.attempt, message.checkpoint
                if self._resources and chance.random() < 0.6:
                    self._decide(message.trial_id, message.number, "resize")
                elif chance.random() < 0.3:
                    self._decide(message.trial_id, message.number, chance.choice(["pause", "exploit"]))
            case m.TrialPaused(by="scheduler") | m.DecisionRefused():
                if isinstance(message, m.TrialPaused) or message.trial_id in self._paused:
                    self._paused[message.trial_id] = message.number
                    self._kernel.at(chance.choice([0.01, 1.0, 10.0]), self._go_on, message.trial_id)
            case m.TrialContinued() | m.LegBegan():
                self._paused.pop(message.trial_id, None)
            case m.TrialFinished():
                self._paused.pop(message.trial_id, None)
                if chance.random() < 0.5:
                    self._saved.pop(message.trial_id, None)  # sometimes its checkpoints are tried too late

    def _go_on(self, trial_id: str) -> None:
        if trial_id in self._paused:
            kind = self._kernel.random.choice(["continue", "exploit", "stop"])
            self._decide(trial_id, self._paused[trial_id], kind)

    def _decide(self, trial_id: str, cause: int, kind: str) -> None:
        donor = self._kernel.random.choice(list(self._saved) or [trial_id])
        exploits = kind == "exploit"
        self._say(
            m.Decided(
                cause=cause,
                kind=kind,
                trial_id=trial_id,
                reason="by chance",
                parameters=f'{{"x": {cause}, "r": {self._kernel.random.random()}}}' if exploits else None,
                donor=donor if exploits else None,
                checkpoint=self._saved.get(donor, (1, 1)) if exploits else None,
                resources={name: cause for name in self._resources} if kind == "resize" else None,
            )
        )


class SimChild:
    """Simulated ``nnimgr.core.running.algorithm_process.Child``, without a process.

    ``told`` is called with each message to it.
    """

    def __init__(
        self,
        kernel: Kernel,
        health: Health,
        start: m.Start,
        on_message: Callable[[m.FromChild], None],
        on_exit: Callable[[str], None],
        *,
        told: Callable[[m.ToChild], None],
    ) -> None:
        self._told = told
        self._kernel, self._health, self._role = kernel, health, start.role
        self._on_message, self._on_exit = on_message, on_exit
        self._loop = asyncio.get_running_loop()
        self._alive = True
        self._judged = False
        self._scheduler = (
            SimScheduler(kernel, self._say, start.resources) if start.role == "scheduler" else None
        )

    async def start(self) -> None:
        await asyncio.sleep(self._kernel.random.choice([0.01, 0.1, 1.0]))
        self._say(m.Ready(learns=self._kernel.random.random() < 0.5))

    def send(self, message: m.ToChild) -> bool:
        self._told(message)
        if self._has_no_use_for(message):
            return True
        slow = self._kernel.likely(0.1)
        delay = self._kernel.random.uniform(0.1, 3.0) if slow else 0.002
        self._loop.call_later(delay, self._take, message)
        return True

    def _has_no_use_for(self, message: m.ToChild) -> bool:
        """Return whether the message changes nothing here: metrics for the tuner, or a restart of a trial."""
        if isinstance(message, m.RolledBack) and message.position == 0:
            return True
        return self._role != "assessor" and isinstance(message, m.Metrics | m.RolledBack)

    def catch_up(self, number: int) -> bool:
        return True

    async def close(self) -> None:
        self._alive = False

    def kill(self) -> None:
        """Crash on its own, unless it has just crashed."""
        since = self._kernel.now - self._health.crashed_at.get(self._role, -HEALTHY_S)
        if self._alive and since >= HEALTHY_S:
            self._health.crashed_at[self._role] = self._kernel.now
            self._kernel.fault("dispatcher crash", self._role)
            self._alive = False
            self._on_exit(f"the {self._role}'s process was killed by signal 9")

    def _say(self, message: m.FromChild) -> None:
        if self._alive:
            self._on_message(message)

    def _take(self, message: m.ToChild) -> None:
        if self._kernel.likely(CRASH):
            self.kill()
        if self._scheduler is not None:
            self._scheduler.take(message)
        match message:
            case m.Ask():
                given = [number for number in message.parameter_ids if number < self._health.size]
                for parameter_id in given:
                    self._say(
                        m.Suggestion(
                            parameter_id=parameter_id,
                            parameters=f'{{"x": {parameter_id}, "r": {self._kernel.random.random()}}}',
                            fed_to=message.fed_to,
                        )
                    )
                missing = tuple(message.parameter_ids[len(given) :])
                self._say(m.Answered(missing=missing, exhausted=bool(missing), fed_to=message.fed_to))
            case m.Metrics() if self._role == "assessor":
                for trial_id, attempt, position, _, text in message.items:
                    if float(text) < 0:
                        self._say(m.Judged(trial_id=trial_id, attempt=attempt, position=position))
                if not self._judged:
                    self._judged = True
                    self._say(m.Answered(missing=(), exhausted=False))
