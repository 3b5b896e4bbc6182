"""Facts stored by earlier versions can still be read, and keep their meaning."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nnimgr import builtins, codec
from nnimgr.rules import facts as f
from nnimgr.rules.fold import apply
from nnimgr.rules.state import ExperimentState, Touched
from nnimgr.store.bulk import TRIAL_COLUMNS, snapshot
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.rows import fact_row, read_fact
from nnimgr.store.writer import ExperimentWriter
from nnimgr.traits import traits_of
from tests.rules.driver import T0, Life, refold

ALL = "all 3 trials were created"
CREATED = '{"experiment_id":"exp","config":{"tuner":%s},"search_space":{},"limits":{"trial_concurrency":1}}'
CHANGED = '{"changes":{"tuner":%s},"limits":{"trial_concurrency":1}}'


@pytest.mark.parametrize(
    ("tuner", "traits"),
    [
        ('{"name":"Random"}', f.TunerTraits()),
        ('{"name":"tpe"}', f.TunerTraits(minimises=True)),
        ('{"name":"TPE","classArgs":{"optimize_mode":"maximize"}}', f.TunerTraits()),
        (
            '{"className":"my.Tuner","classArgs":{"optimize_mode":"minimize"}}',
            f.TunerTraits(minimises=True, own=True),
        ),
        ('{"className":"my.Tuner"}', f.TunerTraits(own=True)),
    ],
)
def test_a_tuner_without_traits_gets_those_of_the_table(tuner: str, traits: f.TunerTraits) -> None:
    created = read_fact("ExperimentCreated", CREATED % tuner)
    changed = read_fact("ConfigChanged", CHANGED % tuner)
    assert isinstance(created, f.ExperimentCreated) and isinstance(changed, f.ConfigChanged)
    assert (created.traits, changed.traits) == (traits, traits)


def test_another_change_has_no_traits() -> None:
    changed = read_fact("ConfigChanged", '{"changes":{"debug":true},"limits":{"trial_concurrency":1}}')
    assert isinstance(changed, f.ConfigChanged) and changed.traits is None


def test_what_is_recorded_now_does_not_depend_on_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed table does not change stored traits: the goal, and whether results need a number."""
    tuner: dict[str, Any] = {"name": "TPE"}
    log = [*Life(trial_concurrency=1).log]
    changed = f.ConfigChanged(
        changes={"tuner": tuner}, limits=f.Limits(trial_concurrency=1), traits=traits_of({"tuner": tuner})
    )
    log.append(f.Recorded(len(log) + 1, T0, changed))
    before = refold(log)
    stored = [fact_row("exp", *recorded) for recorded in log]
    monkeypatch.setattr(builtins, "BUILTINS", ())
    assert traits_of({"tuner": tuner}) == f.TunerTraits(own=True)
    after = refold([f.Recorded(row[1], T0, read_fact(row[3], row[6])) for row in stored])
    assert after == before and after.minimises and not after.traits.own
    assert codec.decode(ExperimentState, codec.encode(after)).traits == before.traits


def reused_life() -> Life:
    """Run trial 0 and let trials 1 and 2 take its result."""
    life = Life(tuner=False, trial_concurrency=1, max_trial_number=3)
    life.take(life.suggestion())
    life.start(0)
    life.metric(0, 0, 0.5, "FINAL")
    life.end(0)
    for _ in range(2):
        reuse = f.Reuse(trial_id=life.trial(0), text='{"default": 0.5}', value=0.5)
        life.take(dataclasses.replace(life.suggestion(), reuse=reuse))
    return life


def as_metric(recorded: f.Recorded) -> f.Recorded:
    """Convert a reused result to the form of earlier versions: a metric of an attempt that never ran."""
    fact = recorded.fact
    if not isinstance(fact, f.ResultReused):
        return recorded
    metric = f.MetricReported(
        f"exp-{fact.trial_id}-1", 0, "FINAL", 0, str(fact.parameter_id), fact.value, fact.text
    )
    return recorded._replace(fact=metric)


async def answers(directory: Path, log: list[f.Recorded]) -> dict[str, Any]:
    """Store the log. Return the state that it folds to and the values that readers find."""
    writer = ExperimentWriter(directory)
    state = await writer.open()
    for recorded in log:
        apply(state, recorded)
        await writer.append(state, [recorded], state.take_touched())
    await writer.close()
    state.touched = Touched()
    with closing(ExperimentReader(directory)) as reader:
        _, rows = reader.trials()
        assert reader.facts(limit=1000) == log
        assert [page for page in pages(reader)] == log
        assert reader.state() == state
        found: dict[str, Any] = {
            "state": state,
            "trials": rows,
            "metrics": [reader.metrics(trial_id=row.trial_id) for row in rows],
            "all metrics": reader.metrics(),
            "sets": reader.sets(rows),
            "results": list(reader.results()),
            "lines": list(reader.lines(kind="FINAL")),
            "curve": reader.curve(rows[1].trial_id, points=10),
        }
    with snapshot(str(database_path(directory)), "exp") as bulk:
        found["columns"] = [
            dict(zip(TRIAL_COLUMNS, row, strict=True)) for page in bulk.trials() for row in page
        ]
        found["export"] = sorted(bulk.export_rows([0, 1, 2]))
        found["changed"] = bulk.changed(after=log[-3].number)
    return found


def pages(reader: ExperimentReader) -> Iterator[f.Recorded]:
    """Yield the log, read by pages of one fact."""
    after = 0
    while page := reader.facts(after=after, limit=1):
        yield from page
        after = page[-1].number


async def test_reused_results_are_found_as_when_they_were_recorded_as_metrics(tmp_path: Path) -> None:
    log = reused_life().log
    earlier = [as_metric(recorded) for recorded in log]
    assert sum(now != then for now, then in zip(log, earlier, strict=True)) == 2
    now, then = await answers(tmp_path / "now", log), await answers(tmp_path / "then", earlier)
    assert [metric.text for metric in now["all metrics"]] == ["0.5", '{"default": 0.5}', '{"default": 0.5}']
    assert now == then


@pytest.mark.parametrize(
    ("kind", "payload", "reason"),
    [
        ("TrialPaused", '{"trial_id":"a","reason":"paused: a user paused it"}', "a user paused it"),
        (
            "TrialEnded",
            '{"trial_id":"a","status":"USER_CANCELED","reason":"stopped: a user stopped it; gone"}',
            "a user stopped it; gone",
        ),
        ("TrialEnded", '{"trial_id":"a","status":"FAILED","reason":"stopped: 3"}', "stopped: 3"),
        ("TrialEnded", '{"trial_id":"a","status":"EARLY_STOPPED","reason":"it is bad"}', "it is bad"),
        ("ExperimentMoved", '{"status":"DONE","reason":"done: all 3 trials were created"}', ALL),
        (
            "ExperimentMoved",
            '{"status":"DRAINING","reason":"waits for its last trials: all 3 trials were created"}',
            ALL,
        ),
        ("ExperimentMoved", '{"status":"DONE","reason":"all 3 trials were created"}', ALL),
        ("ExperimentMoved", '{"status":"STOPPED","reason":"a user stopped it"}', "a user stopped it"),
    ],
)
def test_a_reason_does_not_repeat_the_status(kind: str, payload: str, reason: str) -> None:
    fact = read_fact(kind, payload)
    assert isinstance(fact, f.TrialPaused | f.TrialEnded | f.ExperimentMoved)
    assert fact.reason == reason


async def test_nor_does_the_row_of_an_experiment_that_is_not_open(tmp_path: Path) -> None:
    await answers(tmp_path / "exp", reused_life().log)
    path = database_path(tmp_path / "exp")
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("UPDATE experiments SET reason = 'done: ' || reason").rowcount == 1
    with closing(ExperimentReader(tmp_path / "exp")) as reader:
        assert reader.experiment().reason == "3 of 3 trials"
