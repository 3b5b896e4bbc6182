"""``tune``, experiments, their trials and their results for programs with asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Any

import nnimgr
from nnimgr.aio.threads import Wrapper, each, function, in_thread, method, own, read
from nnimgr.client.calls import Event
from nnimgr.python import trials as _trials

__all__ = ["Experiment", "Results", "Run", "Trial", "Trials", "tune"]


class Trial(Wrapper[nnimgr.Trial]):
    """Trial of an experiment, as ``nnimgr.Trial``, with methods to await."""

    id = own(nnimgr.Trial.id)
    number = own(nnimgr.Trial.number)
    status = own(nnimgr.Trial.status)
    parameters = own(nnimgr.Trial.parameters)
    value = own(nnimgr.Trial.value)
    result = own(nnimgr.Trial.result)
    latest = own(nnimgr.Trial.latest)
    reason = own(nnimgr.Trial.reason)
    attempt = own(nnimgr.Trial.attempt)
    started = own(nnimgr.Trial.started)
    ended = own(nnimgr.Trial.ended)
    checkpoints = read(nnimgr.Trial.checkpoints)
    legs = read(nnimgr.Trial.legs)
    curve = method(nnimgr.Trial.curve)
    logs = method(nnimgr.Trial.logs)
    pause = method(nnimgr.Trial.pause)
    resume = method(nnimgr.Trial.resume)
    stop = method(nnimgr.Trial.stop)

    def __repr__(self) -> str:
        return repr(self.of)

    async def refresh(self) -> Trial:
        """Read the trial again, and return it."""
        await in_thread(self.of.refresh)
        return self

    fork = method(nnimgr.Trial.fork, lambda forked: Trial(forked))


class Trials(Wrapper[_trials.Trials]):
    """Trials of an experiment: ``async for trial in run.trials``, and ``await run.trials[3]``."""

    count = method(_trials.Trials.__len__)

    def __getitem__(self, key: int | str) -> Coroutine[Any, Any, Trial]:
        return self._at(key)

    async def _at(self, key: int | str) -> Trial:
        return Trial(await in_thread(lambda: self.of[key]))

    async def __aiter__(self) -> AsyncIterator[Trial]:
        async for trial in each(iter(self.of)):
            yield Trial(trial)

    async def with_status(self, *statuses: str) -> AsyncIterator[Trial]:
        """Yield the trials that have one of these statuses, such as "RUNNING" or "FAILED"."""
        async for trial in each(self.of.with_status(*statuses)):
            yield Trial(trial)


def _all(trials: list[nnimgr.Trial]) -> list[Trial]:
    return [Trial(trial) for trial in trials]


class Results(Wrapper[nnimgr.Results]):
    """Results of an experiment, as ``nnimgr.Results``, with methods to await."""

    status = read(nnimgr.Results.status)
    best = read(nnimgr.Results.best, Trial)
    best_params = read(nnimgr.Results.best_params)
    best_value = read(nnimgr.Results.best_value)
    pareto = read(nnimgr.Results.pareto, _all)
    errors = read(nnimgr.Results.errors, _all)
    top = method(nnimgr.Results.top, _all)
    curves = method(nnimgr.Results.curves)
    confirmed = read(nnimgr.Results.confirmed)
    to_pandas = method(nnimgr.Results.to_pandas)
    to_arrow = method(nnimgr.Results.to_arrow)
    get_best_result = method(nnimgr.Results.get_best_result, Trial)
    get_dataframe = method(nnimgr.Results.get_dataframe)

    @property
    def trials(self) -> Trials:
        """The trials, in the order of their numbers."""
        return Trials(self.of.trials)

    def __aiter__(self) -> AsyncIterator[Trial]:
        return aiter(self.trials)


class Run(Wrapper[nnimgr.Run]):
    """Experiment that was started, as ``nnimgr.Run``, with methods to await::

    async def follow(name: str) -> None:
        run = await aio.Run.attach(name)
        async for event in run.events():
            print(event.kind)
    """

    name = read(nnimgr.Run.name)
    status = read(nnimgr.Run.status)
    now = read(nnimgr.Run.now)
    url = read(nnimgr.Run.url)
    has_ended = read(nnimgr.Run.has_ended)
    wait = method(nnimgr.Run.wait, Results)
    stop = method(nnimgr.Run.stop)
    resume = method(nnimgr.Run.resume)
    results = method(nnimgr.Run.results, Results)
    update = method(nnimgr.Run.update)
    add = method(nnimgr.Run.add, Trial)

    def __repr__(self) -> str:
        return f"<aio.Run {self.id}>"

    def _ipython_display_(self) -> None:
        """Show the run live in a notebook, as ``nnimgr.Run`` does."""
        self.of._ipython_display_()

    @classmethod
    async def attach(cls, word: str) -> Run:
        """Return the experiment with this id, name or beginning of an id. It may run, or be stopped."""
        return cls(await in_thread(lambda: nnimgr.Run.attach(word)))

    @property
    def id(self) -> str:
        """The experiment's id."""
        return self.of.id

    @property
    def trials(self) -> Trials:
        """The trials, in the order of their numbers."""
        return Trials(self.of.trials)

    def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield all events after the number ``after``, until the experiment has ended."""
        return each(self.of.events(after))


class Experiment(nnimgr.Experiment):
    """Definition of an experiment, as ``nnimgr.Experiment``. Only ``start`` is awaited."""

    async def start(self, *, server: int | None = None) -> Run:  # type: ignore[override]
        """Start the experiment, and return when its creation is stored."""
        start = super().start
        return Run(await in_thread(lambda: start(server=server)))


tune = function(nnimgr.tune, Results)
