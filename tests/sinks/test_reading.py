"""Events as sinks get them: what they add up to is what the database shows, also after rollbacks and legs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nnimgr.sink import Reported, TrialCreated, TrialEnded, TrialRestarted
from nnimgr.sinks.reading import EventSource
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader, TrialRow, TrialSet
from tests.stored.opening import FIXTURES, unpack

NEWEST = max(path.parent.name for path in FIXTURES if path.parent.name.startswith("schema"))


@pytest.mark.parametrize(
    "fixture", [each for each in FIXTURES if each.parent.name == NEWEST], ids=lambda p: p.name
)
def test_the_events_add_up_to_what_is_stored(fixture: Path, tmp_path: Path) -> None:
    stored = unpack(fixture, tmp_path)
    source = EventSource(str(database_path(stored.folder)), stored.id)
    experiment = source.experiment(tmp_path)
    curves: dict[str, dict[int, Any]] = {}
    parameters: dict[str, Any] = {}
    ends: dict[str, tuple[str, float | None]] = {}
    sets: dict[str, Any] = {}  # trial with several parameter sets -> the set that has its result
    number = 0
    for events in source.batches(after=0, up_to=source.last_number):
        for event in events:
            assert event.number > number
            number = event.number
            match event:
                case TrialCreated():
                    curves[event.trial_id], parameters[event.trial_id] = {}, event.parameters
                case Reported():
                    curves[event.trial_id][event.step] = event.result
                case TrialRestarted():
                    kept = {step: x for step, x in curves[event.trial_id].items() if step < event.step}
                    curves[event.trial_id] = kept
                case TrialEnded():
                    ends[event.trial_id] = (event.status, event.value)
                    if event.parameters is not None:
                        sets[event.trial_id] = event.parameters
    for trial_id, curve in curves.items():
        assert curve == {step: result for step, _, _, result in experiment.curve(trial_id)}
    source.close()
    reader = ExperimentReader(stored.folder)
    rows = {row.trial_id: row for row in reader.trials(limit=10_000)[1]}
    assert curves.keys() == rows.keys()
    assert ends == {key: (row.status, row.final_value) for key, row in rows.items() if key in ends}
    for trial_id, given in reader.sets(list(rows.values())).items():
        results = [json.loads(each.parameters) for each in given if _has_result(each, rows[trial_id])]
        if results and trial_id in ends:
            assert results[0] == sets.get(trial_id, parameters[trial_id])
    reader.close()


def _has_result(given: TrialSet, row: TrialRow) -> bool:
    return given.final is not None and given.final.line.text == row.final_text
