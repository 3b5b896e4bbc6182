"""The sentence that describes what an experiment is doing now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from nnimgr.rules import facts as f
from nnimgr.rules.activity import best_so_far, happening, sentence_of
from tests.rules.driver import Life

E = f.ExperimentStatus


def now(life: Life, **more: Any) -> str:
    known: dict[str, Any] = {"searching": True, "outstanding": 0, "service_trouble": None}
    return happening(life.state, life.now, **known | more)


def test_work_and_progress() -> None:
    life = Life(trial_concurrency=2, max_trial_number=4, max_experiment_duration=timedelta(seconds=200))
    life.start(0)
    life.start(1)
    life.now += timedelta(seconds=50)
    assert now(life) == ("2 of at most 2 trials run; 2 of 4 trials were created; 25 % of 200 s are over")


def test_what_is_waited_for() -> None:
    life = Life(trial_concurrency=3)
    life.wait_reason = "no GPU is free"
    life.start(0)
    life.end(0)
    life.start(1)
    told = "1 of at most 3 trials run; 1 is being started; 1 has no place yet: no GPU is free"
    assert now(life) == told
    trouble = "; its training service is not open: no sshd"
    assert now(life, service_trouble="no sshd") == told + trouble


def test_a_tuner_that_is_slow() -> None:
    life = Life(tuner=False, trial_concurrency=2)
    assert now(life, outstanding=2) == "0 of at most 2 trials run; the tuner was asked for 2 parameter sets"
    assert now(life, outstanding=1).endswith("the tuner was asked for a parameter set")
    assert now(life, searching=False).endswith("its tuner is being started")


def test_machines_that_are_silent() -> None:
    life = Life(trial_concurrency=1)
    life.start(0)
    life.take(f.KeeperSilent(keeper_id="local", reason="no word"))
    assert now(life) == "0 of at most 1 trials run; 1 is on machines that are silent"


def test_the_end() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    assert now(life) == ("1 of at most 1 trials run; no more trials are created: all 1 trials were created")
    life.end(0)
    assert now(life) == "done: all 1 trials were created"
    assert sentence_of(E.ERROR, "the tuner has died") == "ended by an error: the tuner has died"
    assert sentence_of(E.STOPPED, "a user stopped it") == "a user stopped it"


def test_the_best_so_far() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert best_so_far(0.12345678, 7, at) == (
        "the best result is 0.123457, of trial #7, since 2026-01-02 03:04:05 UTC"
    )
