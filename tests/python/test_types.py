"""Users' programs pass mypy --strict with the types of the Python API."""

from __future__ import annotations

from pathlib import Path

from mypy import api

PROGRAM = """
import asyncio

import numpy as np

from nnimgr import AskedTrial, Study, aio, space

SPACE = {"x": space.uniform(-5, 5)}


def square(params: dict[str, float]) -> float:
    return params["x"] ** 2


async def measure(params: dict[str, float]) -> float:
    return params["x"] ** 2


def ask_and_tell() -> None:
    study = Study(SPACE, minimize=True, name="mine", tuner="TPE", trials=9)
    with study.ask() as trial:
        trial.report(accuracy=0.5)
        if not trial.should_stop():
            trial.tell(square(trial.params))
    trials: list[AskedTrial] = study.ask(2)
    trials = study.tell(trials, [square(each.params) for each in trials], ask=2)
    trials = study.tell(trials, np.array([1.0, 2.0]), ask=2)
    study.optimize(square, trials=3)
    reveal_type(study.best_value)


async def later() -> None:
    results = await aio.tune("mine.py:square", SPACE, minimize=True, trials=3)
    reveal_type(await results.best())
    run = await aio.Run.attach("mine")
    reveal_type(await run.wait(timeout=3, show="nothing"))
    reveal_type(await run.status())
    reveal_type((await run.add({"x": 1})).number)
    async for event in run.events(after=3):
        print(event.kind)
    study = await aio.Study.create(SPACE, minimize=True)
    async with study.ask() as trial:
        await trial.tell(await measure(trial.params))
    reveal_type(await study.ask(3))
    await study.optimize(measure, trials=3)


asyncio.run(later())
"""
WRONG = """
from nnimgr import aio, space


async def wrong() -> None:
    await aio.tune("mine.py:square", {"x": space.uniform(0, 1)}, maximise=True)
    run = await aio.Run.attach("mine")
    await run.wait("long")
    study = await aio.Study.create({}, lease="short")
    study.ask().params
"""


def checked(folder: Path, program: str) -> list[str]:
    path = folder / "program.py"
    path.write_text(program)
    out, errors, _ = api.run(["--strict", "--no-error-summary", "--show-error-codes", str(path)])
    assert not errors
    return [line.partition("program.py:")[2] for line in out.splitlines()]


def test_programs_are_typed(tmp_path: Path) -> None:
    notes = [
        line.rpartition("Revealed type is ")[2].replace("builtins.", "")
        for line in checked(tmp_path, PROGRAM)
    ]
    assert notes == [
        '"float"',
        '"nnimgr.aio.running.Trial"',
        '"nnimgr.aio.running.Results"',
        '"str"',
        '"int"',
        '"list[nnimgr.aio.study.AskedTrial]"',
    ]


def test_wrong_programs_are_refused(tmp_path: Path) -> None:
    lines = [line.partition(":")[0] for line in checked(tmp_path, WRONG) if "error" in line]
    assert lines == ["6", "8", "9", "10"]
