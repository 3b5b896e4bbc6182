"""Study for programs with asyncio."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from types import TracebackType
from typing import Any, overload

import nnimgr
from nnimgr.aio.running import Results, Run, Trial
from nnimgr.aio.threads import Wrapper, function, in_thread, method, own, read
from nnimgr.python.arguments import checks_arguments
from nnimgr.python.asked import Array, Value, takes_trial
from nnimgr.python.study import warn_of_fewer

__all__ = ["AskedTrial", "Study"]


class AskedTrial(Wrapper[nnimgr.AskedTrial]):
    """Trial that this program runs, as ``nnimgr.AskedTrial``, with methods to await."""

    reason = own(nnimgr.AskedTrial.reason)
    report = method(nnimgr.AskedTrial.report)
    should_stop = method(nnimgr.AskedTrial.should_stop)
    tell = method(nnimgr.AskedTrial.tell)
    fail = method(nnimgr.AskedTrial.fail)
    cancel = method(nnimgr.AskedTrial.cancel)

    def __repr__(self) -> str:
        return repr(self.of)

    @property
    def id(self) -> str:
        """The trial's id."""
        return self.of.id

    @property
    def number(self) -> int:
        """The trial's number, from 0."""
        return self.of.number

    @property
    def attempt(self) -> int:
        """Number of the attempt at the trial, from 1."""
        return self.of.attempt

    @property
    def params(self) -> dict[str, Any]:
        """The parameters."""
        return self.of.params

    @property
    def ended(self) -> bool:
        """Whether this program has ended the trial."""
        return self.of.ended

    async def __aenter__(self) -> AskedTrial:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(lambda: self.of.__exit__(kind, error, trace))


class _Asking:
    """Request for one trial: ``await study.ask()``, or ``async with study.ask() as trial``."""

    def __init__(self, trial: Coroutine[Any, Any, AskedTrial]) -> None:
        self._trial = trial
        self._entered: AskedTrial | None = None

    def __await__(self) -> Generator[Any, Any, AskedTrial]:
        return self._trial.__await__()

    async def __aenter__(self) -> AskedTrial:
        self._entered = await self._trial
        return self._entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            await self._entered.__aexit__(kind, error, trace)


class Study(Wrapper[nnimgr.Study]):
    """Search whose trials this program runs itself, as ``nnimgr.Study``::

    async def search() -> None:
        study = await aio.Study.create({"x": space.uniform(-5, 5)}, minimize=True)
        async with study.ask() as trial:
            await trial.tell(await train(trial.params))
    """

    best = read(nnimgr.Study.best, Trial)
    best_params = read(nnimgr.Study.best_params)
    best_value = read(nnimgr.Study.best_value)
    stop = method(nnimgr.Study.stop)

    def __repr__(self) -> str:
        return f"<aio.Study {self.id}>"

    create = staticmethod(function(nnimgr.Study, lambda study: Study(study)))
    """Create a study, or continue the one with the same name. The arguments are those of ``nnimgr.Study``."""

    @classmethod
    async def attach(cls, word: str) -> Study:
        """Return the study with this id, name or beginning of an id."""
        return cls(await in_thread(lambda: nnimgr.Study.attach(word)))

    @property
    def id(self) -> str:
        """The experiment's id."""
        return self.of.id

    @property
    def run(self) -> Run:
        """The experiment."""
        return Run(self.of.run)

    @property
    def results(self) -> Results:
        """The results. Each use reads the newest ones from the server."""
        return Results(self.of.results)

    @overload
    def ask(self) -> _Asking: ...

    @overload
    def ask(self, count: int) -> Coroutine[Any, Any, list[AskedTrial]]: ...

    def ask(self, count: int | None = None) -> _Asking | Coroutine[Any, Any, list[AskedTrial]]:
        """Return a trial to run, or with ``count`` a list of trials, as ``nnimgr.Study.ask`` does.

        A caller that is canceled gives back what it would have got: those trials are canceled.
        """
        return _Asking(self._ask_one()) if count is None else self._ask(count)

    async def _ask_one(self) -> AskedTrial:
        return (await self._ask(1))[0]

    async def _ask(self, count: int) -> list[AskedTrial]:
        asked = await in_thread(lambda: self.of.ask(count), unused=_give_back)
        return [AskedTrial(trial) for trial in asked]

    async def tell(
        self, trial: AskedTrial | list[AskedTrial], value: Value | list[Value] | Array, *, ask: int = 0
    ) -> list[AskedTrial]:
        """End a trial, or a list of trials, and ask for further ones, as ``nnimgr.Study.tell`` does."""
        ended: Any = trial.of if isinstance(trial, AskedTrial) else trial
        if isinstance(trial, Sequence):  # ``nnimgr.Study.tell`` refuses items that are not trials
            ended = [getattr(each, "of", each) for each in trial]
        asked = await in_thread(lambda: self.of.tell(ended, value, ask=ask), unused=_give_back)
        return [AskedTrial(trial) for trial in asked]

    @checks_arguments
    async def optimize(
        self, function: Callable[..., Awaitable[Value | None]], trials: int | None = None
    ) -> None:
        """Run trials, one after the other, as ``nnimgr.Study.optimize`` does, with a function to await.

        Several calls may run at the same time, for example in ``asyncio.gather``.
        """
        gets_trial = takes_trial(function)
        done = 0
        while trials is None or done < trials:
            try:
                trial = await self.ask()
            except nnimgr.Ended as end:
                if await self.run.status() in ("STOPPED", "ERROR"):
                    raise
                if trials is not None:
                    warn_of_fewer(done, trials, end)
                return
            with contextlib.suppress(nnimgr.LateResult):
                await _run(function, trial, gets_trial)
            done += 1


async def _run(function: Callable[..., Awaitable[Value | None]], trial: AskedTrial, gets_trial: bool) -> None:
    """Call the user's function for a trial. An exception ends the trial as FAILED, and is not raised."""
    failed = False
    try:
        async with trial:
            try:
                value = await function(trial.params, *([trial] if gets_trial else []))
            except Exception:
                failed = True
                raise
            if value is not None and not trial.ended:
                await trial.tell(value)
    except Exception:
        if not failed:
            raise


def _give_back(trials: list[nnimgr.AskedTrial]) -> None:
    for trial in trials:
        with contextlib.suppress(nnimgr.Error):
            trial.cancel()
