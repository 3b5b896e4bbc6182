"""The Python API for asyncio: it has the names and arguments of the synchronous one, and it works."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import nnimgr
from nnimgr import aio, space
from nnimgr.aio.threads import in_thread
from nnimgr.python.trials import Trials

SPACE = {"x": space.choice([0, 1, 2, 3])}
PAIRS: list[tuple[type[Any], type[Any]]] = [
    (nnimgr.Experiment, aio.Experiment),
    (nnimgr.Run, aio.Run),
    (nnimgr.Trial, aio.Trial),
    (Trials, aio.Trials),
    (nnimgr.Results, aio.Results),
    (nnimgr.Study, aio.Study),
    (nnimgr.AskedTrial, aio.AskedTrial),
]
# What a study needs of its trials, and what instances get when they are created.
NOT_FOR_USERS = {"held", "take_end", "settle", "end_of_call", "end_with"}
OF_INSTANCES = {"id", "number", "attempt", "params", "ended", "trials", "run", "of"}
# What replaces a constructor and ``len``, which cannot be awaited.
INSTEAD = {"create", "count"}


def names(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("plain", "awaited"), PAIRS)
def test_the_classes_have_the_same_names(plain: type[Any], awaited: type[Any]) -> None:
    assert names(plain) - NOT_FOR_USERS - OF_INSTANCES == names(awaited) - INSTEAD - OF_INSTANCES


@pytest.mark.parametrize(("plain", "awaited"), PAIRS)
def test_the_methods_have_the_same_arguments(plain: type[Any], awaited: type[Any]) -> None:
    """Methods that are made from others cannot differ. This is about those that are written by hand."""
    for name in names(plain) & names(awaited):
        there, here = inspect.getattr_static(plain, name), inspect.getattr_static(awaited, name)
        if isinstance(here, classmethod):
            there, here = there.__func__, here.__func__
        if inspect.isfunction(here) and inspect.isfunction(there):
            wanted, found = inspect.signature(there).parameters, inspect.signature(here).parameters
            assert [(each.name, each.kind, each.default) for each in found.values()] == [
                (each.name, each.kind, each.default) for each in wanted.values()
            ], name


def test_the_functions_have_the_same_signatures() -> None:
    assert inspect.signature(aio.tune).parameters == inspect.signature(nnimgr.tune).parameters
    assert inspect.signature(aio.Study.create).parameters == inspect.signature(nnimgr.Study).parameters


async def test_a_search_is_run_and_followed(port: int) -> None:
    experiment = aio.Experiment("mine.py:square", SPACE, minimize=True, trials=4, tuner="GridSearch")
    run = await experiment.start(server=port)
    kinds = [event.kind async for event in run.events()]
    assert kinds.count("TrialEnded") == 4
    results = await run.wait(show="nothing")
    assert await results.best_params() == {"x": 2} and await results.status() == "DONE"
    assert [trial.value async for trial in results] == [4.0, 1.0, 0.0, 1.0]
    best = await run.trials[2]
    assert best.number == 2 and (await best.refresh()).status == "SUCCEEDED" and await run.trials.count() == 4
    again = await aio.Run.attach(run.id)
    assert await again.status() == "DONE" and [trial.number for trial in await results.top(1)] == [2]
    with pytest.raises(nnimgr.Error):
        await aio.Run.attach("unknown")


async def test_ipython_shows_what_it_shows_of_the_synchronous_objects(port: int) -> None:
    results = await aio.tune("mine.py:square", SPACE, minimize=True, trials=1, server=port, show="nothing")
    shown: list[str] = []
    results._repr_pretty_(SimpleNamespace(text=shown.append), False)
    assert shown == [repr(results.of)] and "DONE, best " in shown[0]
    assert repr(results) == "<aio.Results>"


async def test_trials_are_asked_for_and_told(port: int) -> None:
    study = await aio.Study.create(SPACE, minimize=True, tuner="GridSearch", server=port)
    async with study.ask() as trial:
        await trial.report(3.0)
        assert not await trial.should_stop()
        await trial.tell(trial.params["x"] + 1.0)
    with pytest.raises(ValueError, match="no good"):
        async with study.ask():
            raise ValueError("no good")

    async def measure(params: dict[str, Any]) -> float:
        await asyncio.sleep(0)
        return float(params["x"])

    await asyncio.gather(study.optimize(measure), study.optimize(measure))
    found = [(trial.status, trial.value) async for trial in study.results]
    assert found[:2] == [("SUCCEEDED", 1.0), ("FAILED", None)]
    assert sorted(value for _, value in found[2:] if value is not None) == [2.0, 3.0]
    assert await study.best_value() == 1.0 and await study.run.status() == "DONE"
    await study.stop()


async def test_a_canceled_ask_gives_its_trials_back(port: int) -> None:
    study = await aio.Study.create(SPACE, minimize=True, at_once=1, tuner="GridSearch", server=port)
    first = await study.ask()
    waiting = asyncio.ensure_future(study.ask(1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await first.tell(1.0)
    third = await study.ask()
    assert third.number in (1, 2)  # 1: the canceled request had not reached the server yet


async def test_a_canceled_call_runs_on_and_its_result_is_returned() -> None:
    go, unused = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> int:
        go.wait()
        return 7

    def give_back(result: int) -> None:
        assert result == 7
        loop.call_soon_threadsafe(unused.set)

    call = asyncio.ensure_future(in_thread(work, unused=give_back))
    await asyncio.sleep(0)
    call.cancel()
    go.set()
    await asyncio.wait_for(unused.wait(), 10)


async def test_a_call_is_canceled_in_the_moment_in_which_its_result_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unused, has_ended = threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    delivered: list[Callable[[], object]] = []

    def deliver(answer: Callable[[], object]) -> None:
        delivered.append(answer)
        has_ended.set()

    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_soon_threadsafe", deliver)
        call = asyncio.ensure_future(in_thread(lambda: 7, unused=lambda result: unused.set()))
        await asyncio.sleep(0)
        assert has_ended.wait(10)
    delivered[0]()  # the call has its result, and is not awake yet
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(unused.wait, 10)
