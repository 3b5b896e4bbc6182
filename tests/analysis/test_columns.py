"""Columns equal the database, whether they were read at once or followed its changes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnimgr.analysis import columns as module
from nnimgr.analysis.column import MISSING, Coded
from nnimgr.analysis.columns import Columns
from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_id_of
from nnimgr.store.bulk import snapshot
from nnimgr.store.errors import StoreError
from tests.analysis.past import SECOND, SPACE, Past, everything, shown

SET = {"lr": 0.01, "layers": 3, "act": "relu"}


def with_set(**changes: Any) -> dict[str, Any]:
    return SET | changes


async def test_a_trial_in_each_state(past: Past) -> None:
    past.suggest(SET, with_set(act="tanh", lr=0.5), SET)
    past.now += SECOND
    past.finish(0, "0.5", after=3 * SECOND)
    past.start(1)
    past.report(1, 0, "0.25", "PERIODICAL")
    past.report(1, 1, "0.125", "PERIODICAL")
    await past.write()
    columns = past.refresh()
    assert len(columns) == 3
    assert shown(columns, "sequence") == [0, 1, 2]
    assert columns.ids.tolist() == [trial_id_of("exp", sequence).encode() for sequence in range(3)]
    assert shown(columns, "status") == ["SUCCEEDED", "RUNNING", "WAITING"]
    assert shown(columns, "source") == ["customized"] * 3
    assert shown(columns, "value") == [0.5, None, None]
    assert shown(columns, "latest") == [None, 0.125, None]
    assert shown(columns, "intermediates") == [0, 2, 0]
    assert shown(columns, "created") == [0.0, 0.0, 0.0]
    assert shown(columns, "started") == [1.0, 4.0, None]
    assert shown(columns, "ended") == [4.0, None, None]
    assert shown(columns, "duration") == [3.0, None, None]
    assert shown(columns, "attempt") == [1, 1, 1]
    assert shown(columns, "parameters.lr") == [0.01, 0.5, 0.01]
    assert shown(columns, "parameters.layers") == [3, 3, 3]
    assert shown(columns, "parameters.act") == ["relu", "tanh", "relu"]
    assert columns.logarithmic == {"parameters.lr"}
    assert columns.revision == past.state.number
    assert columns.arrays["status"].dtype == np.uint8


async def test_the_space_names_columns_before_there_is_a_trial(past: Past) -> None:
    await past.write()
    columns = past.refresh()
    assert [name for name in columns.arrays if name.startswith("parameters.")] == [
        "parameters.lr",
        "parameters.layers",
        "parameters.act",
    ]
    assert columns.categories["parameters.act"] == ["relu", "tanh"]
    assert len(columns) == 0


@pytest.mark.parametrize(
    ("text", "value", "metrics"),
    [
        ("NaN", None, {}),
        ("Infinity", None, {}),
        ('"good"', None, {}),
        ('{"default": 0.5, "acc": 0.75, "note": "x", "loss": 2}', 0.5, {"acc": 0.75, "loss": 2.0}),
        ('{"acc": NaN, "loss": -Infinity}', None, {"acc": None, "loss": None}),
        (' {"default": 1, "deep": {"a": 1}, "yes": true}', 1.0, {}),
        ('{"default": 1, "huge": 1' + "0" * 400 + "}", 1.0, {"huge": None}),
        ("[1, 2]", None, {}),
    ],
)
async def test_what_trials_report(
    past: Past, text: str, value: float | None, metrics: dict[str, float | None]
) -> None:
    past.suggest(SET)
    past.finish(0, text)
    await past.write()
    columns = past.refresh()
    assert shown(columns, "value") == [value]
    found = {name: shown(columns, name)[0] for name in columns.arrays if name.startswith("metrics.")}
    assert found == {f"metrics.{key}": number for key, number in metrics.items()}


async def test_a_further_attempt_takes_the_metrics_of_the_last_one_away(past: Past) -> None:
    past.suggest(SET)
    past.start(0)
    past.report(0, 0, '{"default": 1, "old": 2}')
    await past.write()
    columns = past.refresh()
    assert shown(columns, "metrics.old") == [2.0]
    past.take(f.JobLost(job_id=past.job(0), reason="gone"))
    past.start(0, 2)
    past.report(0, 0, '{"default": 3, "new": 4}', attempt=2)
    await past.write()
    past.refresh(columns)
    assert shown(columns, "metrics.old") == [None]
    assert shown(columns, "metrics.new") == [4.0]
    assert shown(columns, "value") == [3.0]
    assert shown(columns, "attempt") == [2]


async def test_a_fact_about_a_host_changes_trials(past: Past) -> None:
    past.suggest(SET, SET)
    past.finish(0, "1")
    past.start(1)
    await past.write()
    columns = past.refresh()
    past.take(f.KeeperSilent(keeper_id="local", reason="nothing was heard"))
    await past.write()
    past.refresh(columns)
    assert shown(columns, "status") == ["SUCCEEDED", "UNKNOWN"]


async def nested(directory: Path) -> Past:
    inner = {"_name": "conv", "size": {"_type": "quniform", "_value": [1, 9, 1]}}
    deep = {"_name": "deep", "net": {"_type": "choice", "_value": [{"_name": "a"}, {"_name": 2}]}}
    space = {"net": {"_type": "choice", "_value": [{"_name": "none"}, inner, deep]}}
    return Past(directory, space)


async def test_a_nested_choice_becomes_columns_of_its_branches(tmp_path: Path) -> None:
    past = await nested(tmp_path)
    past.suggest(
        {"net": {"_name": "none"}},
        {"net": {"_name": "conv", "size": 3.0}},
        {"net": {"_name": "deep", "net": {"_name": 2}}},
    )
    await past.write()
    columns = past.refresh()
    assert shown(columns, "parameters.net/_name") == ["none", "conv", "deep"]
    assert shown(columns, "parameters.net/size") == [None, 3.0, None]
    assert shown(columns, "parameters.net/net/_name") == [None, None, 2]
    assert columns.categories["parameters.net/net/_name"] == ["a", 2]
    assert "parameters.net" not in columns.arrays
    await past.close()


async def test_values_that_the_space_does_not_know(past: Past) -> None:
    past.suggest(
        with_set(extra=1, kind=1, lists=[1, 2], lr="none"),
        with_set(extra=2.5, kind="one", lists=[1, 2], act=7),
        with_set(kind=True, lists={"a": None}, act=None),
        {},
        "[1]",
        '{"lr": NaN, "kind": 1.0}',
    )
    await past.write()
    columns = past.refresh()
    assert shown(columns, "parameters.extra") == [1.0, 2.5, None, None, None, None]
    assert shown(columns, "parameters.kind") == [1, "one", True, None, None, 1]
    assert shown(columns, "parameters.lists") == [[1, 2], [1, 2], {"a": None}, None, None, None]
    assert shown(columns, "parameters.lr") == [None, 0.01, 0.01, None, None, None]
    assert columns.categories["parameters.act"] == ["relu", "tanh", 7, None]
    assert columns.present("parameters.act").tolist() == [True, True, True, False, False, False]


async def test_a_column_of_numbers_becomes_one_of_categories_when_a_text_comes(past: Past) -> None:
    past.suggest(with_set(extra=2), with_set(extra=1.5))
    await past.write()
    columns = past.refresh()
    assert "parameters.extra" not in columns.categories
    past.suggest(with_set(extra="auto"), with_set(extra=2), SET)
    await past.write()
    past.refresh(columns)
    assert shown(columns, "parameters.extra") == [2, 1.5, "auto", 2, None]
    numbers = columns.numbers("parameters.extra")
    assert numbers[[0, 1, 3]].tolist() == [2.0, 1.5, 2.0]
    assert np.isnan(numbers[[2, 4]]).all()


async def test_a_new_search_space_adds_columns_and_options(past: Past) -> None:
    past.suggest(SET)
    await past.write()
    columns = past.refresh()
    space = SPACE | {
        "act": {"_type": "choice", "_value": ["relu", "gelu"]},
        "layers": {"_type": "choice", "_value": [3, 5]},
        "wd": {"_type": "loguniform", "_value": [1e-6, 1]},
    }
    past.take(f.ConfigChanged(changes={}, limits=past.state.limits, search_space=space))
    past.suggest(with_set(wd=0.1, act="gelu", layers=5))
    await past.write()
    past.refresh(columns)
    assert shown(columns, "parameters.wd") == [None, 0.1]
    assert columns.categories["parameters.act"] == ["relu", "tanh", "gelu"]
    assert shown(columns, "parameters.layers") == [3, 5]
    assert columns.categories["parameters.layers"] == [3, 5]
    assert columns.logarithmic == {"parameters.lr", "parameters.wd"}


async def test_a_space_in_a_form_of_its_own_declares_nothing(tmp_path: Path) -> None:
    past = Past(tmp_path, {"mine": ["anything"]})
    past.suggest({"x": 1})
    await past.write()
    assert shown(past.refresh(), "parameters.x") == [1.0]
    await past.close()


async def test_keys_without_end_do_not_become_columns_without_end(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_COLUMNS", 20)
    past.suggest({f"p{number:02}": number for number in range(30)})
    await past.write()
    columns = past.refresh()
    assert len(columns.arrays) == 20
    assert columns.left_out == 30 + 14 - 20


@pytest.mark.parametrize("seed", range(5))
async def test_following_the_changes_is_as_good_as_reading_all(past: Past, seed: int) -> None:
    rng = random.Random(seed)
    await past.write()
    columns = past.refresh()
    reported: dict[str, int] = {}
    for _ in range(120):
        act(past, rng, reported)
        past.now += SECOND
        if rng.random() < 0.3:
            await past.write()
            past.refresh(columns)
            assert everything(columns) == everything(past.refresh())


def act(past: Past, rng: random.Random, reported: dict[str, int]) -> None:
    """Make a random change to the past."""
    chance = rng.random()
    open_jobs = [job for job in past.state.jobs.values() if not job.closed and job.placed]
    if chance < 0.3 or not open_jobs:
        other: list[Any] = ["a", 1, 2.5]
        past.suggest(rng.choice((SET, {"lr": rng.random()}, with_set(other=rng.choice(other)))))
        return
    if chance < 0.35:
        silent = past.state.keepers["local"].silent is None
        past.take(
            f.KeeperSilent(keeper_id="local", reason="hush") if silent else f.KeeperHeard(keeper_id="local")
        )
        return
    if past.state.keepers["local"].silent is not None:
        return
    job = rng.choice(open_jobs)
    trial = past.state.trials[job.trial_id]
    if job.started_at is None:
        past.start(trial.sequence, job.attempt)
    elif chance < 0.7:
        position = reported[job.id] = reported.get(job.id, -1) + 1
        text = rng.choice(["1.5", "NaN", '{"default": 2, "k": 3}', '{"j": 1}'])
        past.report(trial.sequence, position, text, rng.choice(["FINAL", "PERIODICAL"]), job.attempt)
    elif chance < 0.8:
        past.take(f.JobLost(job_id=job.id, reason="gone"))
    elif chance < 0.85:
        past.take(f.StopRequested(trial_id=trial.id))
    else:
        past.end(trial.sequence, rng.choice([0, 1]), attempt=job.attempt)


async def test_only_what_has_changed_is_read(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    past.suggest(*[SET] * 9)
    await past.write()
    columns = past.refresh()
    past.finish(4, "1")
    await past.write()
    with snapshot(past.database, "exp") as taken:
        read: list[Any] = []
        trials = taken.trials

        def counting(ids: set[str] | None = None) -> Iterator[list[tuple[Any, ...]]]:
            read.append(ids)
            return trials(ids)

        monkeypatch.setattr(taken, "trials", counting)
        columns.refresh(taken)
        columns.refresh(taken)
    assert read == [{past.trial(4)}]
    assert shown(columns, "value")[4] == 1.0


async def test_another_database_in_its_place_is_read_anew(past: Past, tmp_path: Path) -> None:
    past.suggest(SET, SET, SET)
    await past.write()
    columns = past.refresh()
    await past.close()
    for file in (tmp_path / "db").iterdir():
        file.unlink()
    other = Past(tmp_path)
    other.suggest(with_set(lr=0.25))
    await other.write()
    other.refresh(columns)
    assert shown(columns, "parameters.lr") == [0.25]
    await other.close()


async def test_what_is_no_database_says_so(tmp_path: Path) -> None:
    file = tmp_path / "nothing.sqlite"
    with pytest.raises(FileNotFoundError, match="there is no database"), snapshot(str(file), "exp"):
        pass
    os.mkfifo(file)
    with pytest.raises(FileNotFoundError, match="there is no database"), snapshot(str(file), "exp"):
        pass
    file.unlink()
    file.write_text("this is no database, whatever it is called, and has a few bytes" * 40)
    with pytest.raises(StoreError, match="cannot be read"), snapshot(str(file), "exp") as taken:
        Columns().refresh(taken)


async def test_no_experiment_of_this_id(past: Past) -> None:
    await past.write()
    with pytest.raises(FileNotFoundError), snapshot(past.database, "other") as taken:
        Columns().refresh(taken)


def test_more_than_255_categories_take_two_bytes() -> None:
    column = Coded()
    column.buffer = np.full(300, 255, np.uint8)
    column.write(np.arange(200), [f"c{number}" for number in range(200)])
    assert column.buffer.dtype == np.uint8
    column.write(np.arange(200, 299), [f"c{number}" for number in range(200, 299)])
    assert column.buffer.dtype == np.uint16
    assert column.buffer.tolist() == [*range(299), 65535]
    column.write(np.array([0]), [MISSING])
    assert column.buffer[0] == 65535


async def test_positions_of_sequences(past: Past) -> None:
    past.suggest(SET, SET, SET)
    await past.write()
    assert past.refresh().positions([2, 7, 0]).tolist() == [2, 0]
    assert Columns().arrays == {}


async def test_integers_beyond_the_range_of_floats(past: Past) -> None:
    past.suggest({"size": 10**400}, {"size": "small"}, {"size": 1})
    await past.write()
    columns = past.refresh()
    assert shown(columns, "parameters.size") == [10**400, "small", 1]
    assert np.isnan(columns.numbers("parameters.size")).tolist() == [True, True, False]
