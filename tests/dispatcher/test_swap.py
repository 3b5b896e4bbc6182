"""A tuner that replaces another one gets the past, and continues after the death of its process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher import registry
from tests.dispatcher.conftest import Host, MakePast
from tests.dispatcher.test_rebuild import COUNTER, STATEFUL, ask, counted
from tests.dispatcher.test_rebuild_builtin import BATCH, HEAVY, PROMOTING, SCENES, Experiment, need

OTHER = {
    "n": {"_type": "randint", "_value": [0, 40]},
    "z": {"_type": "choice", "_value": ["alien", {"_name": "deep"}]},
}


async def another(host: Host, make_past: MakePast, space: dict[str, Any]) -> Experiment:
    """Return an experiment with a user's tuner that has given sets in two search spaces and keeps states."""
    past = make_past(OTHER)
    experiment = Experiment(await host(search_space=OTHER), past)
    experiment.told = past.number
    for parameter_id in range(6):
        if parameter_id == 3:
            experiment.told = past.space_changed(space)
            experiment.import_data({"parameter": {"n": 3}, "value": 0.5})
        drawn = {"n": parameter_id, "z": "alien"} if parameter_id % 2 else {"n": 3, "c": "a"}
        trial_id = past.suggested(parameter_id, drawn, fed_to=experiment.told, state={"of": "another"})
        experiment.running[trial_id] = (parameter_id, json.dumps(drawn))
        if parameter_id in (1, 2, 4):
            experiment.end([0.3, None, {"default": 2}][parameter_id // 2])
    return experiment


@pytest.mark.parametrize(
    ("name", "space", "arguments"),
    [scene for scene in SCENES if not registry.find("tuner", scene[0]).advisor],
)
async def test_every_built_in_goes_on_after_a_swap(
    host: Host, make_past: MakePast, name: str, space: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """After its process has died, at any moment, it gives the same sets as the first process."""
    need(name, arguments)
    experiment = await another(host, make_past, OTHER if space is BATCH else space)
    past = experiment.past
    since = past.tuner_changed(space if space is BATCH else None)
    late = past.suggested(6, {"n": 39}, fed_to=since - 1)  # requested before the swap
    experiment.running[late] = (6, '{"n": 39}')
    fields = {"name": name, "class_args": arguments, "search_space": space, "since": since}
    experiment.tuner = await host(past=past, **fields)
    assert (await experiment.tuner.expect(m.Ready)).note is None
    experiment.told = past.number
    while name in PROMOTING and experiment.running:  # such a tuner waits for its own trials
        experiment.end(0.5)
    for parameter_id in range(7, 15):
        if parameter_id == 11:
            experiment.end(None, untried=True)
        text = await experiment.ask(parameter_id)
        up_to = experiment.asked_at
        if parameter_id in ((8, 14) if name in HEAVY else (7, 8, 11, 14)):
            again = await host(past=past, **fields, rebuild_to=up_to)
            again.ask(parameter_id, fed_to=up_to)
            assert await again.suggestions(1) == [text]
            await again.child.close()
        if len(experiment.running) > 2:
            experiment.end([0.25, None, {"default": -1}][parameter_id % 3])
    assert [failed.sentence for failed in experiment.tuner.of_kind(m.Failed)] == []


async def test_tpe_learns_from_what_another_one_has_tried(host: Host, make_past: MakePast) -> None:
    space = {"x": {"_type": "uniform", "_value": [0, 100]}}
    past = make_past(space)
    for parameter_id in range(40):
        x = 2.5 * parameter_id
        past.ended(past.suggested(parameter_id, {"x": x}), abs(x - 80))
    since = past.tuner_changed()
    tuner = await host(name="TPE", past=past, search_space=space, since=since)
    found = [given["x"] for given in await ask(tuner, *range(40, 48), fed_to=since)]
    assert sorted(abs(x - 80) for x in found)[4] < 15


IMPORTER = COUNTER.format(attributes="")
REPLAYED = COUNTER.format(attributes="replayable = True")


def finished(number: int, parameter_id: int, value: Any) -> m.TrialFinished:
    return m.TrialFinished(
        number=number,
        trial_id=f"t{parameter_id}",
        parameter_id=parameter_id,
        parameters=json.dumps({"old": parameter_id}),
        text=json.dumps(value),
        success=True,
    )


@pytest.mark.parametrize(
    ("code", "how"),
    [(STATEFUL, "STATE"), (REPLAYED, "REPLAY"), (IMPORTER, "IMPORT")],
    ids=lambda each: each[:6],
)
async def test_a_tuner_without_recall_is_given_the_past_as_imported_data(
    host: Host, make_past: MakePast, code: str, how: str
) -> None:
    """The tuner is not asked for earlier sets and does not load another tuner's state.

    Results of trials that are not its own reach it as imported data, too. After its process has died, its
    state is the same.
    """
    past = make_past({"n": 1})
    first = past.suggested(0, {"old": 0}, state={"total": 1000, "seen": []})
    past.suggested(1, {"old": 1}, state={"total": 2000, "seen": []})
    past.ended(first, 7)
    past.imported({"parameter": {"by": "hand"}, "value": 3})
    past.space_changed({"n": 2})
    since = past.tuner_changed()
    tuner = await host(past=past, code=code, search_space={"n": 2}, since=since)
    note = (await tuner.expect(m.Ready)).note
    assert note is not None and "replaces another one. It got the 2 finished trials" in note
    before: list[Any] = [{"parameter": {"old": 0}, "value": 7}, {"parameter": {"by": "hand"}, "value": 3}]
    assert await ask(tuner, 2, fed_to=since) == [counted(1, [2], [before])]
    state = {"total": 1, "seen": [before]} if how == "STATE" else None
    past.suggested(2, counted(1, [2], [before]), fed_to=since, state=state)
    number = past.ended("t1", 5)
    tuner.send(finished(number, 1, 5))
    later = [{"parameter": {"old": 1}, "value": 5}]
    assert await ask(tuner, 3, fed_to=number) == [counted(2, [2], [before, later])]
    fields: dict[str, Any] = {"past": past, "code": code, "search_space": {"n": 2}, "since": since}
    again = await host(**fields)
    if how == "IMPORT":
        assert await ask(again, 3, fed_to=number) == [counted(1, [2], ["checkpoint", [*before, *later]])]
    else:
        assert await ask(again, 3, fed_to=number) == [counted(2, [2], [before, later])]
