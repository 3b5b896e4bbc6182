"""Runs that confirm the best trials: no algorithm hears of them, and they survive a crash."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.history import History
from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_id_of
from nnimgr.store.location import database_path
from tests.core.lab import Crash, Lab, until, until_status
from training_services.fake import ended, hold, metric, started

E, S = f.ExperimentStatus, f.TrialStatus
RULE = f.ConfirmBest(top=1, runs=2)


def trial(sequence: int) -> str:
    return trial_id_of("exp", sequence)


@pytest.fixture
def confirming(lab: Lab) -> Lab:
    """Return a lab whose assessor would stop each confirmation at its first result."""
    lab.assessor = lab.wants_metrics = True
    lab.config = {"confirmBest": {"top": RULE.top, "runs": RULE.runs}}
    for sequence, value in enumerate((0.3, 0.9)):
        lab.service.script(trial(sequence), [started(), metric(0.1), metric(value, final=True), ended(0)])
    for sequence in (2, 3):
        lab.service.script(
            trial(sequence), [started(), metric(-1), hold(), metric(0.5 + sequence, final=True), ended(0)]
        )
    return lab


def limits(**more: Any) -> dict[str, Any]:
    return {"max_trial_number": 2, "trial_concurrency": 2, "confirm_best": RULE, **more}


def reported(runner: ExperimentRunner) -> set[str]:
    """Return the confirmations that run and have reported their first result."""
    confirming = runner.state.confirming
    jobs = runner.state.jobs.values()
    return {job.trial_id for job in jobs if job.recorded and job.trial_id in confirming}


def heard_of(lab: Lab) -> set[str]:
    """Return the trials that the messages to the algorithms name."""
    found: set[str | None] = set()
    for _, message in lab.sent:
        if isinstance(message, m.Metrics):
            found |= {item[0] for item in message.items}
        found.add(getattr(message, "trial_id", None))
    return {trial_id for trial_id in found if trial_id is not None}


async def test_confirmations_survive_a_crash_and_no_algorithm_hears_of_them(confirming: Lab) -> None:
    lab = confirming
    async with lab.runner(**limits()) as runner:
        await until(runner, lambda: reported(runner) == {trial(2), trial(3)})
        assert set(runner.state.confirming) == {trial(2), trial(3)}
        raise Crash
    async with lab.runner() as runner:
        await until(runner, lambda: runner.session.service is not None)
        for sequence in (2, 3):
            lab.service.resume(f"exp-{trial(sequence)}-1")
        await until_status(runner, E.DONE)
    assert heard_of(lab) == {trial(0), trial(1)}
    reader = lab.reader()
    assert [row.status for row in reader.trials()[1]] == [S.SUCCEEDED] * 4
    found = reader.confirmations(lab.config)
    assert found is not None
    (confirmed,) = found.trials
    assert (confirmed.trial_id, confirmed.value, confirmed.mean) == (trial(1), 0.9, 3.0)
    assert (confirmed.usable, confirmed.unusable, confirmed.open) == (2, 0, 0)
    assert reader.experiment().best_value == 0.9


async def test_a_rebuilt_algorithm_does_not_hear_of_them_either(confirming: Lab) -> None:
    lab = confirming
    async with lab.runner(**limits()) as runner:
        await until(runner, lambda: reported(runner) == {trial(2), trial(3)})
        for sequence in (2, 3):
            lab.service.resume(f"exp-{trial(sequence)}-1")
        await until_status(runner, E.DONE)
    with contextlib.closing(History(str(database_path(lab.directory)), "exp")) as past:
        search = {trial(0), trial(1)}
        last = past.last(up_to=1_000_000, metrics=True)
        assert {trial_id for trial_id, _ in past.ended(up_to=last)} == search
        assert {row[0] for row in past.metrics(after=0, up_to=last)} == search
        assert {row[0] for row in past.reports_and_ends(up_to=last)} == search
        assert set(past.others(set())) == search
        events = past.with_metrics(past.events(after=0, up_to=last), after=0, up_to=last)
        named = {getattr(event, "trial_id", None) for event in events}
        assert named - {None} == search


async def test_a_failed_confirmation_is_counted_and_cannot_be_retried(confirming: Lab) -> None:
    lab = confirming
    lab.service.script(trial(2), [started(), ended(1)])
    async with lab.runner(**limits()) as runner:
        await until(runner, lambda: reported(runner) == {trial(3)})
        lab.service.resume(f"exp-{trial(3)}-1")
        await until_status(runner, E.DONE)
    reader = lab.reader()
    found = reader.confirmations(lab.config)
    assert found is not None and (found.made, found.open) == (2, 0)
    assert (found.trials[0].usable, found.trials[0].unusable, found.trials[0].mean) == (1, 1, 3.5)
    assert reader.failed() == []


async def test_without_the_rule_nothing_is_read(lab: Lab) -> None:
    async with lab.runner(max_trial_number=1) as runner:
        await until_status(runner, E.DONE)
    assert lab.reader().confirmations({}) is None
