"""Trials with several parameter sets (multiPhase) over REST."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nnimgr.api.convert import parameters_of
from tests.api.lab import EXPERIMENT, Lab
from tests.api.stored_life import several_sets


async def test_export_of_several_parameter_sets(lab: Lab) -> None:
    several_sets(lab.life)
    await lab.runner.commit()
    found = (await lab.client.get(f"{EXPERIMENT}/export?intermediate=true")).json()["trials"]
    shown = [(each["parameterId"], each["parameters"], each["text"], each["intermediates"]) for each in found]
    assert shown == [(2, {"x": 1}, "0.75", []), (3, {"x": 2}, "0.5", [7.0])]
    (other, _, trial, *_) = (await lab.client.get(f"{EXPERIMENT}/trials")).json()["trials"]
    assert [(held["parameterId"], held["finalText"]) for held in trial["sets"]] == [
        (2, "0.75"),
        (3, "0.5"),
        (4, None),
    ]
    assert other["sets"] is None
    assert (await lab.client.get(f"{EXPERIMENT}/trials/{trial['id']}")).json()["sets"] == trial["sets"]


def test_of_several_parameter_sets_the_one_with_the_result_counts() -> None:
    sets: Any = [
        SimpleNamespace(parameters="first", final=SimpleNamespace(value=0.5)),
        SimpleNamespace(parameters="second", final=SimpleNamespace(value=0.9)),
        SimpleNamespace(parameters="third", final=None),
    ]
    row: Any = SimpleNamespace(parameters="first", final_value=0.9)
    assert parameters_of(row, sets) == "second" and parameters_of(row, []) == "first"
    row.final_value = None
    assert parameters_of(row, sets) == "first"
