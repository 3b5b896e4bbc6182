"""A runner on a real database, with a scripted service and scripted algorithms."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.config import AlgorithmConfig
from nnimgr.core.running.new_trials import initial_trials
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.core.running.search import Search
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from nnimgr.rules.validate import validate
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.writer import ExperimentWriter
from nnimgr.traits import traits_of
from training_services.fake import FakeService

LIMIT_S = 10.0
LOOK_S = 0.05
START = m.Start(
    role="tuner",
    name="Random",
    class_name=None,
    code_directory=None,
    class_args={},
    search_space={},
    experiment_id="exp",
    database="",
    rebuild_to=0,
    checkpoint_directory="",
    seed=1,
)


@dataclass(slots=True)
class ScriptedChild:
    """A child that answers at once. ``judge`` lists bad metrics, ``dies`` counts deaths when it is asked."""

    lab: Lab
    start_message: m.Start
    on_message: Callable[[m.FromChild], None]
    on_exit: Callable[[str], None]
    sent: list[m.ToChild] = field(default_factory=list)
    closed: bool = False

    async def start(self) -> None:
        self.on_message(m.Ready(learns=self.lab.learns, wants_metrics=self.lab.wants_metrics))

    def send(self, message: m.ToChild) -> bool:
        self.lab.sent.append((self.start_message.role, message))
        self.sent.append(message)
        asyncio.get_running_loop().call_soon(self.answer, message)
        return True

    def catch_up(self, number: int) -> bool:
        return True

    async def close(self) -> None:
        self.lab.closed += 1
        if self.lab.slow_to_leave:
            await asyncio.sleep(0.01)  # longer than a turn of the runner
        self.closed = True

    def answer(self, message: m.ToChild) -> None:
        lab = self.lab
        match message:
            case m.Ask() if lab.hangs:
                pass
            case m.Ask(trial_id=trial_id) if lab.mute and (trial_id or lab.mute_at_all):
                lab.unanswered.append((self, message))
            case m.Ask() if lab.dies:
                lab.dies -= 1
                self.on_exit("the tuner's process was killed by signal 9")
            case m.Ask():
                given = message.parameter_ids[: lab.suggestions]
                lab.suggestions -= len(given)
                for parameter_id in given:
                    self.on_message(
                        m.Suggestion(
                            parameter_id=parameter_id,
                            parameters=f'{{"x": {parameter_id}}}',
                            fed_to=message.fed_to,
                            reuse=lab.reuse,
                        )
                    )
                missing = message.parameter_ids[len(given) :]
                self.on_message(m.Answered(missing=missing, exhausted=bool(missing), fed_to=message.fed_to))
            case m.Metrics():
                for trial_id, attempt, position, _, text in message.items:
                    if float(text) < 0:
                        self.on_message(m.Judged(trial_id=trial_id, attempt=attempt, position=position))


@dataclass(slots=True)
class Lab:
    """Makes runners, one after the other, on the database in ``directory``."""

    directory: Path
    service: FakeService = field(default_factory=FakeService)
    learns: bool = True
    wants_metrics: bool = False  # the tuner wants intermediate results
    suggestions: int = 1_000_000
    dies: int = 0
    assessor: bool = False
    hangs: bool = False  # the tuner does not answer, nor report why
    mute: bool = False  # the tuner does not answer requests for further sets of a trial
    mute_at_all: bool = False  # the tuner answers no request at all
    reuse: tuple[str, str, float] | None = None  # the reused result in every suggestion
    duplicates: str | None = None
    config: dict[str, Any] = field(default_factory=dict)  # fields of the configuration
    initial: list[Any] = field(default_factory=list)  # parameter sets to begin with
    check_tuner: Callable[[AlgorithmConfig], None] | None = None
    sent: list[tuple[str, m.ToChild]] = field(default_factory=list)
    unanswered: list[tuple[ScriptedChild, m.Ask]] = field(default_factory=list)
    slow_to_leave: bool = False
    children: list[ScriptedChild] = field(default_factory=list)
    closed: int = 0
    readers: list[ExperimentReader] = field(default_factory=list)

    def _spawn(
        self,
        start: m.Start,
        on_message: Callable[[m.FromChild], None],
        on_exit: Callable[[str], None],
    ) -> ScriptedChild:
        self.children.append(ScriptedChild(self, start, on_message, on_exit))
        return self.children[-1]

    def search(self, state: ExperimentState, runner: ExperimentRunner) -> Search:
        assessor = replace(START, role="assessor")

        def tuner(state: ExperimentState) -> m.Start:
            return replace(START, since=state.tuner_number, duplicates=self.duplicates)

        return Search(
            tuner=tuner(state),
            new_tuner=tuner,
            assessor=assessor if self.assessor else None,
            spawn=self._spawn,
            post=runner.post,
            pending_metrics=runner.pending_metrics,
        )

    @contextlib.asynccontextmanager
    async def runner(self, *, resumed: bool = False, **limits: Any) -> AsyncIterator[ExperimentRunner]:
        """Run a runner until the block ends. Leaving the block by ``Crash`` acts like kill -9."""
        writer = ExperimentWriter(self.directory)
        state = await writer.open()
        opening: list[f.Fact] = [f.ExperimentOpened(m_epoch=writer.m_epoch, resumed=resumed)]
        if not state.id:
            limits.setdefault("trial_concurrency", 2)
            config = CONFIG | {"trialConcurrency": limits["trial_concurrency"]}
            if "max_trial_number" in limits:
                config["maxTrialNumber"] = limits["max_trial_number"]
            created = f.ExperimentCreated(
                experiment_id="exp",
                config=config | self.config,
                search_space=SPACE,
                limits=f.Limits(**limits),
                traits=traits_of(CONFIG),
            )
            opening[:0] = [created, *initial_trials("exp", self.initial)]
        runner = ExperimentRunner(
            state=state,
            writer=writer,
            make_service=lambda state: self.service,
            make_search=self.search,
            clock=lambda: datetime.now(UTC),
            on_turn=validate,
            opening=opening,
            check_tuner=self.check_tuner,
        )
        task = asyncio.create_task(runner.run())
        try:
            await asyncio.wait_for(runner.opened(), LIMIT_S)
            yield runner
        except Crash:
            task.cancel()
        else:
            runner.close()
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, LIMIT_S)

    def unmute(self) -> None:
        self.mute = False
        for child, message in self.unanswered:
            child.answer(message)

    def reader(self) -> ExperimentReader:
        self.readers.append(ExperimentReader(self.directory))
        return self.readers[-1]

    def close(self) -> None:
        for reader in self.readers:
            reader.close()

    def asked(self) -> list[int]:
        """Parameter ids that the tuner was asked for, in order."""
        return [i for _, message in self.sent if isinstance(message, m.Ask) for i in message.parameter_ids]


CONFIG: dict[str, Any] = {
    "trialCommand": "true",
    "trialCodeDirectory": "/",
    "experimentWorkingDirectory": "/",
    "tuner": {"name": "Random"},
    "trainingService": {"platform": "local"},
}
SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}}


class Crash(Exception):
    """Ends a runner like kill -9 does, without any message."""


async def until(runner: ExperimentRunner, holds: Callable[[], bool]) -> None:
    """Wait, commit by commit, until the condition holds.

    What is not a fact, such as a question to the tuner, may follow the last commit.
    """

    async def wait() -> None:
        while not holds():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(runner.committed_after(runner.last_number), LOOK_S)

    await asyncio.wait_for(wait(), LIMIT_S)


async def until_status(runner: ExperimentRunner, status: f.ExperimentStatus) -> None:
    await until(runner, lambda: runner.state.status is status)
