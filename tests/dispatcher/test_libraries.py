"""Libraries that processes load: the server none of an algorithm's, and each child only its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher import registry
from tests.dispatcher.conftest import Host
from tests.dispatcher.hosting import Hosted
from tests.dispatcher.test_rebuild_builtin import need
from tests.e2e.scene import scene

LIBRARIES = {"numpy", "scipy", "sklearn", "optuna", "cmaes", "smac", "ConfigSpace", "torch", "pandas"}
LEARNING = {"numpy", "scipy", "sklearn", "pandas"}  # the last one only if installed
# Libraries that the child of a built-in algorithm may load. Algorithms that are not listed may load none.
OWN = {
    "TPE": {"numpy"},
    "TPE_legacy": {"numpy"},
    "Anneal": {"numpy"},
    "Evolution": {"numpy"},
    "QMC": {"numpy", "scipy"},
    "GP": LEARNING,
    "Metis": LEARNING,
    "SMAC": LEARNING | {"smac", "ConfigSpace"},
    "CMAES": {"numpy", "scipy", "cmaes"},
    "Optuna": {"numpy", "scipy", "optuna"},
    "NSGA2": {"numpy", "scipy", "optuna"},
    "BOHB": {"numpy"},
    "Curvefitting": {"numpy", "scipy"},
    "Wilcoxon": {"numpy", "scipy"},
    "PB2": LEARNING,
}
SPACES: list[dict[str, Any]] = [
    {"x": {"_type": "uniform", "_value": [0, 1]}, "n": {"_type": "randint", "_value": [0, 9]}},
    {"options": {"_type": "choice", "_value": [{"n": n} for n in range(40)]}},
]


def loaded(log: Path) -> set[str]:
    """Return the libraries that a process has imported, from its log."""
    names = re.findall(r"^import time:.*\|\s*(\w+)", log.read_text(errors="replace"), flags=re.MULTILINE)
    assert "json" in names, "nothing was written down"
    return LIBRARIES & set(names)


async def trial(child: Hosted, number: int) -> None:
    """Ask for one set, and end its trial with a result."""
    child.ask(number, fed_to=number)
    answer = await child.expect(m.Answered)
    if number not in answer.missing:
        given = next(each for each in child.of_kind(m.Suggestion) if each.parameter_id == number)
        child.send(
            m.TrialFinished(
                number=number + 1,
                trial_id=f"t{number}",
                parameter_id=number,
                parameters=given.parameters,
                text=str(number % 7),
                success=True,
            )
        )


@pytest.mark.parametrize("builtin", [each for each in registry.BUILTINS if each.role == "tuner"])
async def test_a_tuners_child_loads_only_its_own(
    host: Host, monkeypatch: pytest.MonkeyPatch, builtin: registry.Builtin
) -> None:
    need(builtin.name)
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    space = next(each for each in SPACES if builtin.space is None or builtin.space(each) is None)
    child = await host(name=builtin.name, search_space=space)
    for number in range(25):
        if child.exits or any(
            isinstance(each, m.Failed) for each in child.seen
        ):  # needs a library that is not installed, or more arguments
            break
        await trial(child, number)
    await child.child.close()
    assert loaded(child.log) <= OWN.get(builtin.name, set())


@pytest.mark.parametrize("builtin", [each for each in registry.BUILTINS if each.role == "assessor"])
async def test_an_assessors_child_loads_only_its_own(
    host: Host, monkeypatch: pytest.MonkeyPatch, builtin: registry.Builtin
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    child = await host("assessor", name=builtin.name)
    for number in range(4):
        items = tuple((f"t{number}", 1, step, step, json.dumps(step / (number + 1))) for step in range(20))
        child.send(m.Metrics(items=items))
        child.send(
            m.TrialFinished(
                number=number + 1,
                trial_id=f"t{number}",
                parameter_id=number,
                parameters="{}",
                text="1.0",
                success=True,
            )
        )
    await child.child.close()
    assert loaded(child.log) <= OWN.get(builtin.name, set())


@pytest.mark.parametrize("builtin", [each for each in registry.BUILTINS if each.role == "scheduler"])
async def test_a_schedulers_child_loads_only_its_own(
    host: Host, monkeypatch: pytest.MonkeyPatch, builtin: registry.Builtin
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    needed = {"schedule": [{"reports": 2, "parameters": {}}], "total": {"trialCpuNumber": 4}}
    arguments = {name: needed[name] for name in builtin.required}
    child = await host("scheduler", name=builtin.name, class_args=arguments, resources={"trialCpuNumber": 1})
    numbers = iter(range(1, 1000))
    for name in ("t0", "t1"):
        child.send(m.TrialCreated(number=next(numbers), trial_id=name, parameters='{"x": 0.5}'))
    for step in range(40):
        for at, name in enumerate(("t0", "t1")):
            item = (name, 1, step, step, json.dumps(at * step))
            child.send(m.Metrics(items=(item,), numbers=(next(numbers),)))
            saved = {"attempt": 1, "checkpoint": step + 1, "reports": step + 1}
            child.send(m.CheckpointSaved(number=next(numbers), trial_id=name, **saved))
    child.send(m.NoMoreTrials(number=next(numbers)))
    await child.expect(m.Decided)
    await child.child.close()
    assert loaded(child.log) <= OWN.get(builtin.name, set())


def test_a_server_loads_none(tmp_path: Path) -> None:
    """Neither the zygote, which writes to the server's log, nor a random search forked from it loads any."""
    with scene(tmp_path, environ={"PYTHONPROFILEIMPORTTIME": "1"}) as found:
        assessor = {"name": "Medianstop"}
        found.create("true", maxTrialNumber=3, assessor=assessor, tuner={"name": "Random"})
        found.done()
        assert loaded(found.server.log) == set()
        assert "import time:" not in (found.folder / "log" / "dispatcher.log").read_text()
