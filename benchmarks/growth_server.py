"""Server's part of ``growth``: one experiment run by the real runner, on a service that runs nothing.

    python -m benchmarks.growth_server DIRECTORY life|fill|reopen --trials N [--metrics M]

It is a separate process, so that its CPU and memory are only the runner's. It prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import proc
from nnimgr.core.running.algorithm_process import Child
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.core.running.search import Search
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.process import DispatcherChild
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from nnimgr.store.location import database_path
from nnimgr.store.writer import ExperimentWriter
from training_services.base import JobEnded, JobEvent
from training_services.fake import FakeService, ended, metric, started

EXPERIMENT = "growing"
PARAMETERS = 10
SPACE = {f"p{number}": {"_type": "uniform", "_value": [0, 1]} for number in range(PARAMETERS)}
CONFIG = {
    "trialCommand": "true",
    "trialCodeDirectory": "/",
    "experimentWorkingDirectory": "/",
    "tuner": {"name": "Random"},
    "trainingService": {"platform": "local"},
}
CONCURRENCY = 8
WIDE = 1000  # concurrency while a past is made, so that turns are large
TAIL = 650  # trials after the past's last snapshot: nearly the most that a crash leaves to fold
MORE = 8  # trials that a reopened experiment runs before it counts as open


class Forgetful(FakeService):
    """Service that forgets a job once its end is committed, so that only the server's memory grows."""

    def committed(self, facts: Sequence[JobEvent]) -> None:
        FakeService.committed(self, facts)
        self.orders.clear()
        for fact in facts:
            if isinstance(fact, JobEnded):
                self._jobs.pop(fact.job_id, None)
                self._submitted.discard(fact.job_id)


@dataclass(slots=True)
class Instant:
    """Tuner without a process, for making a past whose costs are not measured."""

    on_message: Callable[[m.FromChild], None]

    async def start(self) -> None:
        self.on_message(m.Ready(learns=False))

    def send(self, message: m.ToChild) -> bool:
        if isinstance(message, m.Ask):
            for number in message.parameter_ids:
                values = ", ".join(f'"p{place}": {number / (place + 1)!r}' for place in range(PARAMETERS))
                self.on_message(
                    m.Suggestion(parameter_id=number, parameters=f"{{{values}}}", fed_to=message.fed_to)
                )
            self.on_message(m.Answered(missing=(), exhausted=False))
        return True

    def catch_up(self, number: int) -> bool:
        return True

    async def close(self) -> None:
        return


@contextlib.asynccontextmanager
async def running(
    directory: Path, *, until: int, concurrency: int, metrics: int, instant: bool, tidy: bool
) -> AsyncIterator[ExperimentRunner]:
    """Run the experiment with this trial limit. ``tidy``: close it at the end instead of crashing it."""
    writer = ExperimentWriter(directory)
    state = await writer.open()
    limits = f.Limits(trial_concurrency=concurrency, max_trial_number=until)
    opening: list[f.Fact] = [f.ExperimentOpened(m_epoch=writer.m_epoch, resumed=bool(state.id))]
    if state.id:
        changes = {"trialConcurrency": concurrency, "maxTrialNumber": until}
        opening.append(f.ConfigChanged(changes=changes, limits=limits))
    else:
        opening.insert(
            0,
            f.ExperimentCreated(
                experiment_id=EXPERIMENT,
                config=CONFIG | {"trialConcurrency": concurrency, "maxTrialNumber": until},
                search_space=SPACE,
                limits=limits,
                traits=f.TunerTraits(),
            ),
        )
    steps = [metric(number / 8) for number in range(metrics - 1)]
    service = Forgetful(default=(started(), *steps, metric(0.5, final=True), ended(0)))
    runner = ExperimentRunner(
        state=state,
        writer=writer,
        make_service=lambda state: service,
        make_search=lambda state, runner: _search(directory, runner, instant=instant),
        clock=lambda: datetime.now(UTC),
        on_turn=lambda state: None,
        opening=opening,
    )
    task = asyncio.create_task(runner.run())
    await runner.opened()
    yield runner
    if tidy:
        runner.close()
    else:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _search(directory: Path, runner: ExperimentRunner, *, instant: bool) -> Search:
    def spawn(
        start: m.Start, on_message: Callable[[m.FromChild], None], on_exit: Callable[[str], None]
    ) -> Child:
        if instant:
            return Instant(on_message)
        return DispatcherChild(
            start,
            python=sys.executable,
            environ=os.environ,
            cwd=directory,
            log_path=directory / "dispatcher.log",
            on_message=on_message,
            on_exit=on_exit,
        )

    start = m.Start(
        role="tuner",
        name="Random",
        class_name=None,
        code_directory=None,
        class_args={},
        search_space=SPACE,
        experiment_id=EXPERIMENT,
        database=str(database_path(directory)),
        rebuild_to=0,
        checkpoint_directory=str(directory),
        seed=1,
    )
    return Search(
        tuner=start,
        new_tuner=lambda _: start,
        assessor=None,
        spawn=spawn,
        post=runner.post,
        pending_metrics=runner.pending_metrics,
    )


def _succeeded(state: ExperimentState) -> int:
    return state.counts.get(f.TrialStatus.SUCCEEDED, 0)


async def _reach(runner: ExperimentRunner, trials: int) -> None:
    """Wait, after each commit, until this number of trials has succeeded. Raise RunnerClosed."""
    while _succeeded(runner.state) < trials:
        await runner.committed_after(runner.last_number)


async def life(directory: Path, *, trials: int, metrics: int) -> dict[str, object]:
    """Measure CPU and memory per thousand ended trials."""
    marks = []
    async with running(
        directory, until=trials, concurrency=CONCURRENCY, metrics=metrics, instant=False, tidy=True
    ) as runner:
        for mark in (1, *range(1000, trials + 1, 1000)):
            await _reach(runner, mark)
            marks.append(
                (_succeeded(runner.state), time.process_time(), proc.memory_kib(os.getpid(), "VmRSS") / 1024)
            )
    return {"marks": marks}


async def fill(directory: Path, *, trials: int, metrics: int) -> dict[str, object]:
    """Make a past with this number of trials, without a snapshot or close at the end."""
    begun = time.monotonic()
    for until, concurrency, tidy in ((trials - TAIL, WIDE, True), (trials, CONCURRENCY, False)):
        async with running(
            directory, until=until, concurrency=concurrency, metrics=metrics, instant=True, tidy=tidy
        ) as runner:
            await _reach(runner, until)
            while runner.state.status is not f.ExperimentStatus.DONE:
                await runner.committed_after(runner.last_number)
    return {"seconds": time.monotonic() - begun, "bytes": database_path(directory).stat().st_size}


async def reopen(directory: Path, *, trials: int, metrics: int) -> dict[str, object]:
    """Measure the CPU of this process and its tuner until a reopened experiment has run a few more trials."""
    async with running(
        directory,
        until=trials + MORE,
        concurrency=CONCURRENCY,
        metrics=metrics,
        instant=False,
        tidy=False,
    ) as runner:
        await _reach(runner, trials + MORE)
        used = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "cpu_s": used,
        "tuner_s": children.ru_utime + children.ru_stime,
        "rss_mib": proc.memory_kib(os.getpid(), "VmRSS") / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("what", choices=["life", "fill", "reopen"])
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--metrics", type=int, default=1, help="of each trial, the final one included")
    options = parser.parse_args()
    work = {"life": life, "fill": fill, "reopen": reopen}[options.what]
    print(json.dumps(asyncio.run(work(options.directory, trials=options.trials, metrics=options.metrics))))


if __name__ == "__main__":
    main()
