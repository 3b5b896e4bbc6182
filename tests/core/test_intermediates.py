"""Intermediate results reach a tuner in the order of the log."""

from __future__ import annotations

import pytest

from nnimgr.core.running.new_trials import fork_origin
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_id_of
from tests.core.lab import Lab, until, until_status
from training_services.fake import ended, lost, metric, saved, started

E = f.ExperimentStatus


def trial(sequence: int) -> str:
    return trial_id_of("exp", sequence)


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_tuner_that_wants_metrics_gets_them_in_the_order_of_the_log(lab: Lab, wanted: bool) -> None:
    lab.wants_metrics = wanted
    lab.service.script(
        trial(0),
        [started(), metric(1), saved(1), metric(2), metric(3), lost("the host burnt")],
        [started(), metric(4), lost("this host burnt, too")],
        [started(), metric(5), metric(6, final=True), ended(0)],
    )
    async with lab.runner(trial_concurrency=1, max_trial_number=2) as runner:
        await until_status(runner, E.DONE)
    heard: list[tuple[int, str, int | str]] = []
    for _, message in lab.sent:
        if isinstance(message, m.Metrics):
            pairs = zip(message.numbers, message.items, strict=True)
            heard += [(number, "metric", f"{item[1]} {item[3]} {item[4]}") for number, item in pairs]
        elif isinstance(message, m.RolledBack):
            heard.append((message.number, "rolled back", message.reports))
        elif isinstance(message, m.TrialFinished):
            heard.append((message.number, "end", message.trial_id))
    assert heard == sorted(heard)
    ends = [("end", trial(0)), ("end", trial(1))]
    all_of_them = [
        *(("metric", "1 0 1"), ("metric", "1 1 2"), ("metric", "1 2 3"), ("rolled back", 1)),
        *(("metric", "2 1 4"), ("rolled back", 1), ("metric", "3 1 5")),
    ]
    assert [each[1:] for each in heard] == (all_of_them if wanted else []) + ends


async def test_the_assessor_hears_where_a_fork_begins(lab: Lab) -> None:
    lab.assessor = lab.wants_metrics = True
    lab.service.script(trial(0), [started(), metric(1), saved(1)])
    async with lab.runner(trial_concurrency=1, max_trial_number=5) as runner:
        await until(runner, lambda: any(each.checkpoints for each in runner.state.trials.values()))
        fork = await runner.add_trial({"x": 1}, origin=fork_origin(runner.state, trial(0), None))
        await until(runner, lambda: any(isinstance(told, m.RolledBack) for _, told in lab.sent))
    ((role, told),) = [(role, told) for role, told in lab.sent if isinstance(told, m.RolledBack)]
    assert (role, told.trial_id, told.attempt, told.reports) == ("assessor", fork.trial_id, 1, 1)
