"""All analyses over a real database, compared with the database's own reader."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import past
from nnimgr.analysis.questions import Answers
from nnimgr.home import Home
from nnimgr.rules.facts import TrialStatus
from nnimgr.store.location import database_path
from nnimgr.store.reader import ExperimentReader, TrialRow
from tests.analysis.given import unpack

TRIALS = 250


class Whole:
    """A stopped experiment with every kind of fact."""

    def __init__(self, directory: Path) -> None:
        self.reader = ExperimentReader(directory)
        self.rows: list[TrialRow] = self.reader.trials_from(limit=TRIALS)
        self.parameters = [json.loads(row.parameters) for row in self.rows]
        self._answers, self._database = Answers(), str(database_path(directory))

    def ask(self, question: str, **arguments: Any) -> bytes:
        return self._answers.answer(self._database, "past", question, arguments)

    def told(self, question: str, **arguments: Any) -> Mapping[str, Any]:
        return dict(json.loads(self.ask(question, **arguments)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    home = tmp_path_factory.mktemp("home")
    asyncio.run(past.write(Home(home), "past", trials=TRIALS, metrics=10, seed=1))
    made = Whole(home / "past")
    yield made
    made.reader.close()


def test_parallel_counts_what_the_rows_say(whole: Whole) -> None:
    header, found = unpack(
        whole.ask(
            "parallel",
            axes=[
                {"name": "parameters.optimizer/_name"},
                {"name": "parameters.batch_size"},
                {"name": "value"},
            ],
            brushes={"parameters.lr": {"range": [1e-4, 1e-2]}},
            bins=32,
            lines=TRIALS,
        )
    )
    brushed = [number for number, each in enumerate(whole.parameters) if 1e-4 <= each["lr"] <= 1e-2]
    assert (header["total"], header["selected"]) == (TRIALS, len(brushed))
    assert found["sequences"].tolist() == brushed
    names, sizes = header["axes"][0]["categories"], header["axes"][1]["categories"]
    expected = Counter(
        (whole.parameters[number]["optimizer"]["_name"], whole.parameters[number]["batch_size"])
        for number in brushed
    )
    right = header["axes"][1]["bins"] + 1
    shown = {
        (names[cell // right], sizes[cell % right]): count
        for cell, count in zip(
            found["selected.0.cells"].tolist(), found["selected.0.counts"].tolist(), strict=True
        )
    }
    assert shown == expected
    without = sum(row.final_value is None for row in whole.rows)
    assert found["axis.2.all"][-1] == without > 0


def test_curves_are_the_metrics_of_the_attempts_that_count(whole: Whole) -> None:
    header, found = unpack(whole.ask("curves", key="default", lines=TRIALS, points=100))
    reporting = [row for row in whole.rows if row.intermediates]
    assert header["total"] == len(reporting)
    assert any(row.attempt > 1 for row in reporting)
    starts = found["line.start"]
    for place, row in enumerate(reporting):
        metrics = whole.reader.metrics(trial_id=row.trial_id, attempt=row.attempt, kind="PERIODICAL")
        line = slice(starts[place], starts[place + 1])
        assert found["x"][line].tolist() == [metric.sequence for metric in metrics]
        assert found["y"][line] == pytest.approx([metric.value for metric in metrics])
    assert found["band.count"].sum() == sum(row.intermediates for row in whole.rows)


def test_history_is_that_of_the_best_trial(whole: Whole) -> None:
    answer = whole.told("history", points=100)
    best = whole.reader.experiment()
    assert (answer["points"][-1]["trialId"], answer["points"][-1]["value"]) == (
        best.best_trial_id,
        best.best_value,
    )


def test_timeline_has_every_attempt_once(whole: Whole) -> None:
    header, found = unpack(whole.ask("timeline", pixels=1_000_000))
    attempts = [job for row in whole.rows for job in whole.reader.jobs(row.trial_id)]
    assert found["count"].tolist() == [1] * len(attempts)
    places = {(lane["keeperId"], lane["gpu"], lane["part"]) for lane in header["lanes"]}
    assert places == {("local", None, part) for part in range(past.HERE)} | {
        (f"train_{host}_22", gpu, 0) for host in past.MACHINES for gpu in range(past.GPUS)
    }
    order = np.lexsort((found["start"], found["lane"]))
    same = found["lane"][order][1:] == found["lane"][order][:-1]
    assert np.all((found["start"][order][1:] >= found["end"][order][:-1])[same])
    assert found["queue.running"].max() == past.HERE + past.GPUS * len(past.MACHINES)
    _, merged = unpack(whole.ask("timeline", pixels=10))
    assert merged["count"].sum() == len(attempts) > len(merged["count"])


def test_stopped_says_what_the_trials_say(whole: Whole) -> None:
    answer = whole.told("stopped", offset=0, limit=1000)
    rows = {row.trial_id: row for row in whole.rows}
    wanted = (TrialStatus.EARLY_STOPPED, TrialStatus.USER_CANCELED)
    assert {trial["trialId"] for trial in answer["trials"]} == {
        row.trial_id for row in whole.rows if row.status in wanted
    }
    for trial in answer["trials"]:
        row = rows[trial["trialId"]]
        assert (trial["status"], trial["reason"]) == (row.status, row.reason)
        if trial["by"] == "assessor":
            assert trial["reason"] == f"the assessor judged the trial bad at report {trial['step'] + 1}"
    assert answer["counts"]["assessor"] > 0 and answer["assessor"] == "Medianstop"


def test_importance_and_density_know_the_parameters(whole: Whole) -> None:
    answer = whole.told("importance")
    names = [parameter["name"] for parameter in answer["parameters"]]
    assert set(names) >= {"lr", "optimizer/_name", "width"}
    assert answer["trials"] == sum(row.final_value is not None for row in whole.rows)
    header, found = unpack(whole.ask("density", x="parameters.lr", y="value", bins=32))
    assert header["axes"][0]["log"] and found["count"].sum() == answer["trials"]
