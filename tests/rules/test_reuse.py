"""Trials that take an earlier trial's result, and trials that an experiment begins with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nnimgr import codec
from nnimgr.config import ConfigError
from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_id_of
from tests.core.lab import Crash, Lab, until, until_status
from tests.rules.driver import Life, refold
from training_services.fake import ended, hold, started

S = f.TrialStatus
REUSE = f.Reuse(trial_id="abcde", text='{"default": 0.5}', value=0.5)


def reused(life: Life) -> f.Suggested:
    plain = life.suggestion()
    return f.Suggested(
        trial_id=plain.trial_id,
        sequence=plain.sequence,
        source=plain.source,
        parameter_id=plain.parameter_id,
        parameters=plain.parameters,
        reuse=REUSE,
    )


def test_it_ends_in_the_turn_that_brings_it() -> None:
    life = Life(tuner=False, trial_concurrency=1, max_trial_number=2)
    facts = life.take(reused(life))
    assert [type(fact) for fact in facts] == [f.Suggested, f.ResultReused, f.TrialEnded]
    sentence = "was not run: it has the result of trial abcde, whose parameters are the same"
    assert life.ended() == {life.trial(0): (S.SUCCEEDED, sentence)}
    assert life.touched.trials[life.trial(0)].final_text == '{"default": 0.5}'
    assert life.state.best is not None and life.state.best.value == 0.5
    assert not life.state.jobs and life.asked == 1  # the slot is still free, and the budget is one less
    life.take(reused(life))
    assert life.state.status is f.ExperimentStatus.DONE
    assert refold(life.log) == life.state
    copy = [codec.decode(type(fact), codec.encode(fact)) for fact in facts]
    assert copy == facts


def test_nothing_calls_it_off() -> None:
    """A new search space or a stop of the experiment before the result does not cancel the trial."""
    life = Life(tuner=False, trial_concurrency=1)
    before = life.state.number
    life.take(f.ConfigChanged(changes={}, limits=life.state.limits, search_space={"y": {}}))
    late = reused(life)
    life.take(f.Suggested(**{**{name: getattr(late, name) for name in late.__slots__}, "fed_to": before}))
    life.take(f.ExperimentStopRequested(), reused(life))
    assert [status for status, _ in life.ended().values()] == [S.SUCCEEDED, S.SUCCEEDED]
    assert life.state.status is f.ExperimentStatus.STOPPED


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    found = Lab(tmp_path)
    yield found
    found.close()


async def test_what_the_tuner_says_of_a_set_is_recorded(lab: Lab) -> None:
    async with lab.runner(max_trial_number=1) as runner:
        await until_status(runner, f.ExperimentStatus.DONE)
    lab.reuse = ("abcde", "0.25", 0.25)
    async with lab.runner(resumed=True) as runner:
        await runner.change_config({"maxTrialNumber": 2})
        await until(runner, lambda: runner.state.counts.get(S.SUCCEEDED) == 2)
    reader = lab.reader()
    row = reader.trials()[1][1]
    assert (row.final_value, row.final_text, row.started_at) == (0.25, "0.25", None)
    assert [final.value for page in reader.results() for *_, final in page] == [1.0, 0.25]
    *_, told = [message for _, message in lab.sent if isinstance(message, m.TrialFinished)]
    assert (told.text, told.value, told.success) == ("0.25", 0.25, True)


async def test_constraints_hold_for_what_users_submit_and_can_be_changed(lab: Lab) -> None:
    lab.config = {"searchSpaceConstraints": ["x < 0.5"]}
    async with lab.runner(trial_concurrency=1) as runner:
        with pytest.raises(RequestRefused) as refused:
            await runner.add_trial({"x": 0.75})
        assert str(refused.value) == "the constraint x < 0.5 is not met by x = 0.75"
        await runner.add_trial({"x": 0.25})
        with pytest.raises(ConfigError) as error:
            await runner.change_config({"searchSpaceConstraints": ["x < 0.5", "y < 0.5"]})
        assert "searchSpaceConstraints[1]: the search space has no parameter y" in str(error.value)
        with pytest.raises(ConfigError) as error:
            await runner.change_config({"searchSpace": {"y": {"_type": "uniform", "_value": [0, 1]}}})
        assert "searchSpaceConstraints[0]: the search space has no parameter x" in str(error.value)
        with pytest.raises(ConfigError) as error:
            await runner.change_config({"searchSpaceConstraints": ["x < -1"]})
        sentence = "none of 10,000 random parameter sets meets all constraints, but at least 0.1 % must."
        assert sentence in str(error.value)
        await runner.change_config({"searchSpaceConstraints": ["x > 0.5"]})
        assert runner.state.config["searchSpaceConstraints"] == ["x > 0.5"]
        assert changes(lab) == [({"x": SPACE}, ("x > 0.5",))]
        both: dict[str, Any] = {"searchSpace": {"y": SPACE}, "searchSpaceConstraints": ["y > 0.5"]}
        await runner.change_config(both)
        await runner.change_config({"searchSpaceConstraints": None})
        assert changes(lab)[1:] == [({"y": SPACE}, ("y > 0.5",)), ({"y": SPACE}, ())]
        await runner.add_trial({"y": 0.1})
        await runner.stop(detach=False)
        await until_status(runner, f.ExperimentStatus.STOPPED)


SPACE = {"_type": "uniform", "_value": [0, 1]}


def changes(lab: Lab) -> list[tuple[Any, Any]]:
    """Return the search spaces and constraints that the tuner was sent."""
    return [
        (json.loads(json.dumps(message.search_space)), message.constraints)
        for _, message in lab.sent
        if isinstance(message, m.SpaceChanged)
    ]


async def test_an_experiment_begins_with_the_sets_of_its_configuration(lab: Lab) -> None:
    """The configured sets become trials once, with the experiment; the tuner fills the other slots."""
    lab.initial = [{"x": 0.25}, {"x": 0.5}]
    lab.service.default = [started(), hold(), ended(0)]
    async with lab.runner(trial_concurrency=2, max_trial_number=3) as runner:
        assert runner.state.next_sequence == 2
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 2)
        raise Crash
    async with lab.runner() as runner:
        await until(runner, lambda: runner.session.service is not None)
        for sequence in range(3):
            job_id = f"exp-{trial_id_of('exp', sequence)}-1"
            await until(runner, lambda job_id=job_id: is_running(runner, job_id))
            lab.service.resume(job_id)
        await until_status(runner, f.ExperimentStatus.DONE)
    _, rows = lab.reader().trials()
    assert [(row.source, row.parameter_id, row.parameters) for row in rows] == [
        (f.SuggestionSource.CUSTOMIZED, None, '{"x": 0.25}'),
        (f.SuggestionSource.CUSTOMIZED, None, '{"x": 0.5}'),
        (f.SuggestionSource.ALGORITHM, 0, '{"x": 0}'),
    ]
    assert lab.asked() == [0]


async def test_sets_of_users_are_told_where_none_may_be_repeated(lab: Lab) -> None:
    lab.duplicates = "skip"
    async with lab.runner(trial_concurrency=1) as runner:
        await runner.add_trial({"x": 0.25})
        assert [message.parameters for _, message in lab.sent if isinstance(message, m.SetTried)] == [
            '{"x": 0.25}'
        ]


def is_running(runner: ExperimentRunner, job_id: str) -> bool:
    return job_id in runner.state.jobs and runner.state.jobs[job_id].started_at is not None
