"""The tuner of the examples keeps the contract that is shipped, and what the guide shows runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from examples.tuner import hill
from examples.tuner.hill import HillTuner
from nnimgr.dispatcher.installed import GROUPS
from nnimgr.testing import TunerConformance

GUIDE = Path(__file__).parents[1] / "docs" / "writing-a-tuner.md"


class TestHill(TunerConformance):
    def make(self) -> HillTuner:
        return HillTuner(seed=1)


def test_it_climbs() -> None:
    tuner = HillTuner("minimize", seed=3)
    tuner.update_search_space(
        {"x": {"_type": "uniform", "_value": [0, 1]}, "c": {"_type": "choice", "_value": [1, 2]}}
    )
    found: list[float] = []
    for parameter_id in range(60):
        parameters: Any = tuner.generate_parameters(parameter_id)
        found.append((parameters["x"] - 0.3) ** 2 + parameters["c"])
        tuner.receive_trial_result(parameter_id, parameters, found[-1])
    assert sum(found[-20:]) < sum(found[:20]) and min(found) < 1.001


def test_the_guide_shows_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its programs run, and the tests that it names are those of the suite."""
    monkeypatch.setitem(sys.modules, "my_package", ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.hill", hill)
    text = GUIDE.read_text()
    for program in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        names: dict[str, Any] = {"__name__": "guide"}
        exec(compile(program, str(GUIDE), "exec"), names)
    tests = {name for name in dir(TunerConformance) if name.startswith("test_")}
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named and named <= tests
    assert all(f"`{group}`" in text for group in GROUPS.values())
