"""Multi-phase trials as a tuner sees them: further sets, results on arrival, and one end for each set."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from nnimgr.dispatcher import messages as m
from tests.dispatcher.conftest import Host, MakePast

RECORDER = """
    from nni import NoMoreTrialError
    from nni.tuner import Tuner

    class Mine(Tuner):
        {attributes}
        def __init__(self):
            self.calls = []
        def update_search_space(self, search_space):
            pass
        def generate_parameters(self, parameter_id, **kwargs):
            if parameter_id == 9:
                raise NoMoreTrialError
            return {{"for": kwargs.get("trial_job_id"), "calls": self.calls}}
        def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
            self.calls.append(["result", parameter_id, parameters["for"], value, kwargs["trial_job_id"]])
        def trial_end(self, parameter_id, success, **kwargs):
            self.calls.append(["end", parameter_id, success])
        def import_data(self, data):
            self.calls.append(["import", [each["value"] for each in data]])
"""
STATEFUL = """
        def dump_state(self): return self.calls
        def load_state(self, state): self.calls = state
"""


def result(number: int, parameter_id: int, text: str, *, made_for: str | None) -> m.ResultReported:
    return m.ResultReported(
        number=number,
        trial_id="t0",
        parameter_id=parameter_id,
        parameters=json.dumps({"for": made_for}),
        text=text,
    )


def end(number: int, *, text: str | None, success: bool = True) -> m.TrialFinished:
    return m.TrialFinished(
        number=number, trial_id="t0", parameter_id=0, parameters='{"for": null}', text=text, success=success
    )


async def calls_of(tuner: Any, parameter_id: int, fed_to: int, trial_id: str | None = None) -> Any:
    tuner.send(m.Ask(parameter_ids=(parameter_id,), fed_to=fed_to, trial_id=trial_id))
    found = json.loads((await tuner.suggestions(1))[0])
    assert found["for"] == trial_id
    await tuner.expect(m.Answered)
    return found["calls"]


EXPECTED = [
    ["result", 0, None, 0.5, "t0"],
    ["result", 1, "t0", 0.75, "t0"],
    ["end", 0, True],
    ["end", 1, True],
]


async def test_each_result_is_told_when_it_comes_and_each_set_ends(host: Host) -> None:
    tuner = await host(code=RECORDER.format(attributes=""))
    assert await calls_of(tuner, 0, 0) == []
    tuner.send(result(5, 0, "0.5", made_for=None))
    assert await calls_of(tuner, 1, 5, "t0") == EXPECTED[:1]
    tuner.send(result(7, 1, "0.75", made_for="t0"))
    tuner.send(end(9, text="0.75"))
    assert await calls_of(tuner, 2, 9) == EXPECTED


async def test_no_more_sets_are_an_answer(host: Host) -> None:
    tuner = await host(code=RECORDER.format(attributes=""))
    tuner.send(m.Ask(parameter_ids=(9,), fed_to=0, trial_id="t0"))
    assert await tuner.expect(m.Answered) == m.Answered(missing=(9,), exhausted=True)


async def test_a_set_that_came_too_late_ends_once(host: Host) -> None:
    tuner = await host(code=RECORDER.format(attributes=""))
    await calls_of(tuner, 0, 0)
    await calls_of(tuner, 1, 0, "t0")
    tuner.send(end(5, text=None, success=False))
    await calls_of(tuner, 2, 5, "t0")  # the set crossed the trial's end on its way
    for number, parameter_id in ((6, 1), (7, 2)):
        tuner.send(m.SetDiscarded(number=number, trial_id="t0", parameter_id=parameter_id, parameters="{}"))
    assert await calls_of(tuner, 3, 7) == [["end", 0, False], ["end", 1, False], ["end", 2, False]]


@pytest.mark.parametrize("ended_first", [True, False])
async def test_a_set_that_came_too_late_is_given_again(host: Host, ended_first: bool) -> None:
    space = {"x": {"_type": "choice", "_value": [1, 2]}}
    tuner = await host(name="GridSearch", search_space=space)
    tuner.ask(0)
    if ended_first:
        tuner.send(end(5, text=None, success=False))
    tuner.send(m.Ask(parameter_ids=(1,), fed_to=0, trial_id="t0"))
    *_, late = await tuner.suggestions(2)
    if not ended_first:
        tuner.send(end(5, text=None, success=False))
    tuner.send(m.SetDiscarded(number=6, trial_id="t0", parameter_id=1, parameters=late))
    tuner.ask(2, 3)
    assert await tuner.suggestions(1) == [late]
    while not (answered := await tuner.expect(m.Answered)).exhausted:
        pass
    assert answered.missing == (3,)


async def test_a_result_that_is_no_number_is_noted_and_the_tuner_not_told(host: Host) -> None:
    tuner = await host(search_space={"x": {"_type": "uniform", "_value": [0, 1]}})
    tuner.send(result(5, 0, '"bad"', made_for=None))
    assert "the tuner treats the trial as failed" in (await tuner.expect(m.Noted)).note


@pytest.mark.parametrize("attributes", ["replayable = True", STATEFUL])
async def test_a_tuner_made_anew_knows_the_phases(host: Host, make_past: MakePast, attributes: str) -> None:
    past = make_past({})
    code = RECORDER.format(attributes=attributes)
    past.suggested(0, {"for": None, "calls": []}, state=[])
    past.result_taken("t0", 0, 0, {"for": None}, 0.5)
    past.suggested_further("t0", 1, 1, {"for": "t0", "calls": EXPECTED[:1]}, state=EXPECTED[:1])
    past.result_taken("t0", 1, 1, {"for": "t0"}, 0.75)
    again = await host(code=code, past=past)
    again.send(end(past.ended("t0", 0.75), text="0.75"))
    assert await calls_of(again, 2, past.number) == EXPECTED
    at_the_end = await host(code=code, past=past)
    assert await calls_of(at_the_end, 2, past.number) == EXPECTED


async def test_a_tuner_that_keeps_no_state_gets_each_result_once(host: Host, make_past: MakePast) -> None:
    past = make_past({})
    past.suggested(0, {"for": None})
    past.result_taken("t0", 0, 0, {"for": None}, 0.5)
    past.suggested_further("t0", 1, 1, {"for": "t0"})
    past.result_taken("t0", 1, 1, {"for": "t0"}, 0.75)
    past.ended("t0", 0.75)
    past.suggested_further("t0", 2, 2, {"for": "t0"}, late=True)
    again = await host(code=RECORDER.format(attributes=""), past=past)
    again.send(m.SetDiscarded(number=past.number, trial_id="t0", parameter_id=2, parameters="{}"))
    assert await calls_of(again, 3, past.number) == [["import", [0.5, 0.75]]]


async def test_a_penalty_is_for_the_sets_without_a_result(host: Host) -> None:
    tuner = await host(code=RECORDER.format(attributes=""))
    await calls_of(tuner, 0, 0)
    tuner.send(result(5, 0, "0.5", made_for=None))
    await calls_of(tuner, 1, 5, "t0")
    tuner.send(replace(end(6, text="0.5", success=False), stand_in="9.0"))
    assert await calls_of(tuner, 2, 6) == [
        EXPECTED[0],
        *(["end", 0, False], ["result", 1, "t0", 9.0, "t0"], ["end", 1, False]),
    ]
