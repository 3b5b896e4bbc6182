"""The scheduler of the examples keeps the contract that is shipped, and what the guide shows runs."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from examples.scheduler import median
from examples.scheduler.median import MedianScheduler
from nnimgr.dispatcher.installed import GROUPS
from nnimgr.scheduler import Scheduler
from nnimgr.testing import SchedulerConformance
from tests.schedulers.play import Play, said

GUIDE = Path(__file__).parents[1] / "docs" / "writing-a-scheduler.md"


class TestMedian(SchedulerConformance):
    def make(self) -> MedianScheduler:
        return MedianScheduler(after=3)


def test_the_better_trials_end_first() -> None:
    play = Play(MedianScheduler(after=1))
    play.create("a", "b", "c")
    play.drain()
    assert play.report("a", 0.5) == [] and play.report("b", 0.9) == []
    assert said(play.report("c", 0.1)) == ["pause c"]
    assert play.host.decided[-1].reason == "report 1: 0.1 is below the median 0.5"
    assert play.pause("c") == [] and play.end("a", "SUCCEEDED") == []
    assert said(play.end("b", "SUCCEEDED")) == ["continue c"]


def test_the_guide_shows_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its programs run, and the methods and tests that it names are those that there are."""
    monkeypatch.setitem(sys.modules, "my_package", ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.median", median)
    text = GUIDE.read_text()
    programs = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for program in programs:
        names: dict[str, Any] = {"__name__": "guide"}
        exec(compile(program, str(GUIDE), "exec"), names)
    assert _bare(programs[0]) == _bare(Path(median.__file__).read_text())
    tests = {name for name in dir(SchedulerConformance) if name.startswith("test_")}
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named and named <= tests
    methods = {name for name, each in vars(Scheduler).items() if callable(each) and name[0] != "_"}
    assert methods == set(re.findall(r"`(\w+)\([\w, ]*\)`", text)) & set(dir(Scheduler))
    assert f"`{GROUPS['scheduler']}`" in text


def _bare(program: str) -> list[str]:
    """Return the statements of the methods of a program's class, without types and docstrings."""
    (kind,) = (each for each in ast.parse(program).body if isinstance(each, ast.ClassDef))
    methods = [each for each in kind.body if isinstance(each, ast.FunctionDef)]
    for node in ast.walk(kind):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node.annotation = ast.Name("Any")
    return [
        re.sub(r": Any = ", " = ", ast.unparse(statement)) for method in methods for statement in method.body
    ]
