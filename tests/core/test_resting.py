"""A built-in tuner has no process while its experiment only waits for trials."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnimgr.core.running import resting
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_id_of
from tests.core.lab import Lab, until, until_status
from tests.dispatcher.hosting import eventually
from training_services.fake import ended, hold, metric, started

E = f.ExperimentStatus
S = f.TrialStatus


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setattr(resting, "REST_AFTER_S", 0.02)
    monkeypatch.setattr(resting, "QUICK_S", 60.0)  # however busy the machine is
    made = Lab(tmp_path)
    made.service.script(trial_id_of("exp", 0), [started(), hold(), metric(0.5, final=True), ended(0)])
    yield made
    made.close()


async def test_it_rests_and_is_made_anew_from_the_log_when_it_is_asked_again(lab: Lab) -> None:
    async with lab.runner(trial_concurrency=1, max_trial_number=2) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        await rests(lab)
        lab.service.resume(f"exp-{trial_id_of('exp', 0)}-1")
        await until_status(runner, E.DONE)
    end = next(r.number for r in lab.reader().facts(limit=1000) if isinstance(r.fact, f.TrialEnded))
    assert lab.children[-1].start_message.rebuild_to >= end
    asked = [
        [i for ask in each.sent if isinstance(ask, m.Ask) for i in ask.parameter_ids] for each in lab.children
    ]
    assert [ids for ids in asked if ids] == [[0], [1]]  # on a slow machine one may rest before it is asked
    assert not any(isinstance(r.fact, f.AlgorithmFailed) for r in lab.reader().facts(limit=1000))


async def test_another_one_takes_the_place_of_one_that_rests(lab: Lab) -> None:
    async with lab.runner(trial_concurrency=1, max_trial_number=2) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        await rests(lab)
        before = len(lab.children)
        await runner.change_config({"tuner": {"name": "TPE"}})
        await eventually(lambda: len(lab.children) > before)
        lab.service.resume(f"exp-{trial_id_of('exp', 0)}-1")
        await until_status(runner, E.DONE)
    assert lab.children[before].start_message.since > 0


async def test_one_that_was_slow_to_start_stays(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting, "QUICK_S", -1.0)
    async with lab.runner(trial_concurrency=1, max_trial_number=2) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        await stays(lab)


async def test_one_that_had_no_more_sets_stays_since_it_may_bring_some_by_itself(lab: Lab) -> None:
    lab.suggestions = 1
    async with lab.runner(trial_concurrency=2, max_trial_number=3) as runner:
        await until(runner, lambda: runner.state.counts.get(S.RUNNING) == 1)
        await stays(lab)


async def test_one_that_owes_a_set_stays(lab: Lab) -> None:
    lab.mute = lab.mute_at_all = True
    async with lab.runner(trial_concurrency=1, max_trial_number=2):
        await eventually(lambda: bool(lab.unanswered))
        await stays(lab)


async def rests(lab: Lab) -> None:
    await eventually(lambda: all(each.closed for each in lab.children))


async def stays(lab: Lab) -> None:
    await asyncio.sleep(5 * resting.REST_AFTER_S)
    assert not lab.children[-1].closed
