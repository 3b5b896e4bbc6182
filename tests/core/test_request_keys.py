"""Idempotency keys in the state: the number that is kept, and older logs and snapshots without keys."""

from __future__ import annotations

import pytest

from nnimgr import codec
from nnimgr.core.running import new_trials
from nnimgr.rules import facts as f
from nnimgr.rules.state import AddedTrial, ExperimentState
from nnimgr.store.rows import read_fact, read_snapshot, snapshot_row
from tests.rules.driver import Life


def add(life: Life, key: str | None) -> AddedTrial:
    addition = new_trials.TrialAddition({"x": 1}, outstanding=0, key=key)
    life.take(*addition(life.state))
    assert addition.added is not None
    return addition.added


def test_the_newest_keys_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnimgr.rules.fold_trials.MOST_REQUEST_KEYS", 2)
    life = Life(trial_concurrency=1, max_trial_number=9, tuner=False)
    first = add(life, "a")
    add(life, None)
    assert add(life, "a") == first
    add(life, "b")
    add(life, "c")
    assert list(life.state.added) == ["b", "c"]
    assert add(life, "a") != first


def test_a_snapshot_keeps_the_keys() -> None:
    life = Life(trial_concurrency=1, max_trial_number=9, tuner=False)
    first = add(life, "a")
    _, number, version, body = snapshot_row(life.state)
    found = read_snapshot([(number, version, body)])
    assert found is not None and found.added == {"a": first}


def test_facts_and_snapshots_of_an_earlier_version_have_no_keys() -> None:
    life = Life(trial_concurrency=1, max_trial_number=9, tuner=False)
    add(life, None)
    plain = codec.encode(life.state)
    assert not plain.pop("added", {})
    assert codec.decode(ExperimentState, plain).added == {}
    text = '{"trial_id":"a","sequence":0,"source":"customized","parameter_id":null,"parameters":"{}"}'
    fact = read_fact("Suggested", text)
    assert isinstance(fact, f.Suggested) and fact.request_key is None
    assert "request_key" not in codec.encode(fact)
