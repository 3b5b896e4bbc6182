"""Intermediate results as a tuner gets them: when they are reported, rolled back, and read again later."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nnimgr.dispatcher import messages as m
from tests.dispatcher.conftest import Host, MakePast
from tests.dispatcher.past import Past

RECORDER = """
    from nni.tuner import Tuner
    from nnimgr.algorithm import Past

    class Mine(Tuner):
        {attributes}
        def __init__(self):
            self.calls = []
        def update_search_space(self, search_space):
            pass
        def generate_parameters(self, parameter_id, **kwargs):
            return {{"id": parameter_id, "pair": (1, 2), "calls": self.calls}}
        def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
            self.calls.append(["result", parameter_id, value])
        def receive_intermediate_result(self, parameter_id, parameters, value, *, sequence, trial_job_id):
            if value == "bad":
                raise ValueError("it is bad")
            self.calls.append([trial_job_id, sequence, value, parameter_id, parameters["id"]])
        def intermediate_rolled_back(self, parameter_id, trial_job_id, reports):
            self.calls.append(["back", parameter_id, trial_job_id, reports])
        def trial_end(self, parameter_id, success, **kwargs):
            self.calls.append(["end", parameter_id])
        def import_data(self, data):
            self.calls.append(["import", [each["value"] for each in data]])
"""
WAYS = {
    "recall": "def recall(self, parameter_id, parameters): pass",
    "state": """
        def dump_state(self): return self.calls
        def load_state(self, state): self.calls = [["loaded"]]
    """,
    "replay": "replayable = True",
    "import": "",
}


def recorder(attributes: str = "") -> str:
    return RECORDER.format(attributes=attributes)


def end(past: Past, trial_id: str, parameter_id: int | None, value: float) -> m.TrialFinished:
    number = past.ended(trial_id, value)
    return m.TrialFinished(
        number=number,
        trial_id=trial_id,
        parameter_id=parameter_id,
        parameters=json.dumps({"id": parameter_id}),
        text=json.dumps(value),
        success=True,
    )


async def suggest(tuner: Any, past: Past, parameter_id: int) -> Any:
    """Request a parameter set and record it. Return the calls in it."""
    tuner.ask(parameter_id, fed_to=past.number)
    found = await tuner.expect(m.Suggestion)
    parameters = json.loads(found.parameters)
    state = None if found.state is None else json.loads(found.state)
    past.suggested(parameter_id, parameters, fed_to=found.fed_to, state=state)
    return parameters["calls"]


async def test_a_tuner_gets_each_result_once_and_in_order(host: Host, make_past: MakePast) -> None:
    past = make_past()
    tuner = await host(code=recorder(), database=str(past.path))
    assert (await tuner.expect(m.Ready)).wants_metrics
    await suggest(tuner, past, 0)
    await suggest(tuner, past, 1)
    first = past.reported("t0", 0.5, {"loss": [1]})
    tuner.send(first)
    tuner.send(first)  # repeated
    tuner.send(past.reported("t1", 7))
    past.suggested(None, {"id": "by hand"})
    tuner.send(past.reported("t2", 1))  # a user's own trial, which the tuner does not accept
    past.suggested(90, {"id": 90})
    tuner.send(past.reported("t3", 1))  # another tuner has suggested it
    tuner.send(end(past, "t0", 0, 2))
    assert await suggest(tuner, past, 4) == [
        ["t0", 0, 0.5, 0, 0],
        ["t0", 1, {"loss": [1]}, 0, 0],
        ["t1", 0, 7, 1, 1],
        ["result", 0, 2],
        ["end", 0],
    ]
    assert not tuner.of_kind(m.Failed)


async def test_a_tuner_that_cannot_say_its_state_is_blamed_for_that(host: Host, make_past: MakePast) -> None:
    broken = """
        def dump_state(self): raise ValueError("no state")
        def load_state(self, state): pass
    """
    tuner = await host(code=recorder(broken), database=str(make_past().path))
    tuner.ask(0, fed_to=0)
    failed = await tuner.expect(m.Failed)
    assert (failed.call, failed.sentence, failed.fatal) == (
        "dump_state",
        "the tuner's dump_state raised ValueError: no state",
        True,
    )


async def test_a_tuner_without_the_method_gets_none(host: Host, make_past: MakePast) -> None:
    past = make_past()
    code = recorder().replace("def receive_intermediate_result", "def other")
    tuner = await host(code=code, database=str(past.path))
    assert not (await tuner.expect(m.Ready)).wants_metrics
    await suggest(tuner, past, 0)
    tuner.send(past.reported("t0", 0.5))
    tuner.send(past.continued("t0", 2, 1))
    tuner.send(end(past, "t0", 0, 2))
    assert await suggest(tuner, past, 1) == [["result", 0, 2], ["end", 0]]


async def test_customised_trials_have_no_parameter_id(host: Host, make_past: MakePast) -> None:
    past = make_past()
    code = recorder().replace("self.calls = []", "self.calls = []; self._accept_customized_trials()", 1)
    tuner = await host(code=code, database=str(past.path))
    past.suggested(None, {"id": "by hand"})
    tuner.send(past.reported("t0", 1))
    assert await suggest(tuner, past, 0) == [["t0", 0, 1, None, "by hand"]]


async def test_parameters_are_those_that_the_tuner_gave(host: Host, make_past: MakePast) -> None:
    past = make_past()
    code = recorder().replace('parameters["id"]', 'isinstance(parameters["pair"], tuple)')
    tuner = await host(code=code, database=str(past.path))
    await suggest(tuner, past, 0)
    tuner.send(past.reported("t0", 1))
    assert await suggest(tuner, past, 1) == [["t0", 0, 1, 0, True]]


async def test_results_that_are_not_usable_are_left_out_and_noted_once(
    host: Host, make_past: MakePast
) -> None:
    past = make_past()
    tuner = await host(
        code=recorder(), database=str(past.path), objectives={"gain": "maximize", "cost": "minimize"}
    )
    await suggest(tuner, past, 0)
    values = {"gain": 1, "cost": 2}, {"gain": 1}, float("nan"), {"gain": 3, "cost": 4}
    tuner.send(past.reported("t0", *values))
    note = 'its intermediate result 2 is a mapping without "cost" (it has "gain")'
    left_out = f"{note}: the tuner does not get results like this"
    assert await tuner.expect(m.Noted) == m.Noted(trial_id="t0", note=left_out)
    assert await suggest(tuner, past, 1) == [["t0", 0, values[0], 0, 0], ["t0", 3, values[3], 0, 0]]
    assert len(tuner.of_kind(m.Noted)) == 1


async def test_an_error_is_reported_once_for_each_trial(host: Host, make_past: MakePast) -> None:
    past = make_past()
    tuner = await host(code=recorder(), database=str(past.path))
    await suggest(tuner, past, 0)
    await suggest(tuner, past, 1)
    tuner.send(past.reported("t0", "bad", "bad", 5))
    tuner.send(past.reported("t1", "bad"))
    assert await suggest(tuner, past, 2) == [["t0", 2, 5, 0, 0]]
    failed = tuner.of_kind(m.Failed)
    assert [(each.trial_id, each.call, each.fatal) for each in failed] == [
        ("t0", "receive_intermediate_result", False),
        ("t1", "receive_intermediate_result", False),
    ]
    assert failed[0].sentence == "the tuner's receive_intermediate_result raised ValueError: it is bad"


@pytest.mark.parametrize("reports", [0, 2])
async def test_results_that_are_made_again_come_again(host: Host, make_past: MakePast, reports: int) -> None:
    past = make_past()
    tuner = await host(code=recorder(), database=str(past.path))
    await suggest(tuner, past, 0)
    tuner.send(past.reported("t0", 1, 2, 3))
    tuner.send(past.continued("t0", 2, reports))
    tuner.send(past.reported("t0", 9, attempt=2, first=reports))
    calls = await suggest(tuner, past, 1)
    assert calls[3:] == [["back", 0, "t0", reports], ["t0", reports, 9, 0, 0]]


async def test_a_set_of_a_multi_phase_trial_gets_its_own_results(host: Host, make_past: MakePast) -> None:
    past = make_past()
    tuner = await host(code=recorder(WAYS["recall"]), database=str(past.path))
    await suggest(tuner, past, 0)
    tuner.send(past.reported("t0", 1, parameter_id=0))
    tuner.send(m.Ask(parameter_ids=(1,), fed_to=past.number, trial_id="t0"))
    found = await tuner.expect(m.Suggestion)
    past.suggested_further("t0", 1, 1, json.loads(found.parameters))
    tuner.send(past.reported("t0", 2, parameter_id=1, first=1))
    tuner.send(past.reported("t0", 3, parameter_id=0, first=2))
    calls = await suggest(tuner, past, 2)
    assert [call[2:] for call in calls] == [[1, 0, 0], [2, 1, 1], [3, 0, 0]]
    again = await host(code=recorder(WAYS["recall"]), past=past)
    assert await suggest(again, past, 3) == calls


async def test_dropped_results_are_read_in_their_order(host: Host, make_past: MakePast) -> None:
    past = make_past()
    tuner = await host(code=recorder(), database=str(past.path))
    await suggest(tuner, past, 0)
    await suggest(tuner, past, 1)
    tuner.send(past.reported("t0", 1, 2))
    past.reported("t1", 3)  # from here on, the lines did not fit into the pipe
    ended = end(past, "t1", 1, 4)
    past.continued("t0", 2, 1)
    last = past.reported("t0", 5, attempt=2, first=1)
    tuner.send(m.CatchUp(number=past.number))
    tuner.send(ended)
    tuner.send(last)
    assert await suggest(tuner, past, 2) == [
        ["t0", 0, 1, 0, 0],
        ["t0", 1, 2, 0, 0],
        ["t1", 0, 3, 1, 1],
        ["result", 1, 4],
        ["end", 1],
        ["back", 0, "t0", 1],
        ["t0", 1, 5, 0, 0],
    ]


async def test_a_slow_tuner_gets_all_results_before_what_follows_them(
    host: Host, make_past: MakePast, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    past = make_past()
    code = recorder().replace(
        'if value == "bad"', f'if value == [0]: open({str(gate)!r}).read()\n            if value == "bad"'
    )
    tuner = await host(
        code=code.replace("sequence, value,", "sequence, len(str(value)),"), database=str(past.path)
    )
    await suggest(tuner, past, 0)
    padding = "x" * 500_000
    sent = [tuner.send(past.reported("t0", [0]))]
    await tuner.expect(m.Busy)
    sent += [tuner.send(past.reported("t0", padding, first=n)) for n in range(1, 40)]
    assert not sent[-1] and tuner.child.behind
    number = past.imported({"parameter": 1, "value": 2})
    tuner.send(m.Imported(number=number, records='[{"parameter": 1, "value": 2}]'))
    gate.write_text("")
    calls = await suggest(tuner, past, 1)
    assert [call[1] for call in calls] == [*range(40), [2]]


@pytest.mark.parametrize("way", WAYS)
async def test_a_rebuilt_tuner_gets_recorded_results_again(host: Host, make_past: MakePast, way: str) -> None:
    past = make_past()
    first = await host(code=recorder(WAYS[way]), database=str(past.path))
    await suggest(first, past, 0)
    await suggest(first, past, 1)
    first.send(past.reported("t0", 1, 2))
    first.send(end(past, "t1", 1, 0.5))
    assert await suggest(first, past, 2) == [
        ["t0", 0, 1, 0, 0],
        ["t0", 1, 2, 0, 0],
        ["result", 1, 0.5],
        ["end", 1],
    ]
    first.send(past.continued("t0", 2, 1))
    first.send(past.reported("t0", 7, attempt=2, first=1))
    first.send(past.reported("t2", 8))
    first.send(end(past, "t2", 2, 0.25))
    up_to = past.number
    first.ask(3, fed_to=up_to)
    expected = json.loads((await first.suggestions(1))[0])["calls"]
    assert len(expected) == 9
    await first.child.close()

    again = await host(code=recorder(WAYS[way]), past=past)
    ready = await again.expect(m.Ready)
    assert ready.wants_metrics
    calls = await suggest(again, past, 3)
    match way:
        case "state":
            assert calls == [["loaded"], *expected[4:]]
        case "import":
            assert calls == [["import", [0.5, 0.25]]]
            again.send(past.reported("t0", 9, attempt=2, first=2))  # its result comes by import_data
            again.send(past.reported("t3", 10))
            assert (await suggest(again, past, 4))[1:] == [["t3", 0, 10, 3, 3]]
        case _:
            assert calls == expected
    assert not again.of_kind(m.Failed)


async def test_a_replay_knows_which_results_came_before_a_set(host: Host, make_past: MakePast) -> None:
    """Every set depends on the results before it. So a wrong order would end the process."""
    past = make_past()
    first = await host(code=recorder(WAYS["replay"]), database=str(past.path))
    for number in range(6):
        await suggest(first, past, number)
        for trial in range(number):
            first.send(past.reported(f"t{trial}", number, first=number))
    again = await host(code=recorder(WAYS["replay"]), past=past)
    assert await suggest(again, past, 6) == await suggest(first, past, 6)


async def test_a_replacing_tuner_gets_results_of_its_own_trials(host: Host, make_past: MakePast) -> None:
    past = make_past()
    past.suggested(0, {"id": 0})
    past.reported("t0", 1)
    since = past.tuner_changed()
    tuner = await host(code=recorder(WAYS["state"]), past=past, since=since)
    tuner.send(past.reported("t0", 2, first=1))
    assert await suggest(tuner, past, 1) == []
    tuner.send(past.reported("t1", 3))
    past.reported("t0", 4, first=2)
    again = await host(code=recorder(WAYS["state"]), past=past, since=since)
    assert await suggest(again, past, 2) == [["loaded"], ["t1", 0, 3, 1, 1]]


@pytest.mark.parametrize(
    "attributes",
    [
        f"""
        {WAYS["recall"]}
        def needs(self, search_spaces): return Past.ALL & ~Past.INTERMEDIATES
        """,
        WAYS["import"],
    ],
)
async def test_results_that_are_not_needed_do_not_come_again(
    host: Host, make_past: MakePast, attributes: str
) -> None:
    past = make_past()
    past.suggested(0, {"id": 0})
    past.reported("t0", 1)
    tuner = await host(code=recorder(attributes), past=past)
    tuner.send(m.CatchUp(number=past.number))
    assert await suggest(tuner, past, 1) == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_tuner_without_the_method_is_rebuilt_without_metrics(
    host: Host, make_past: MakePast, way: str
) -> None:
    past = make_past()
    code = recorder(WAYS[way]).replace("def receive_intermediate_result", "def other")
    code = code.replace('"calls": self.calls', '"calls": []')
    past.suggested(0, {"id": 0, "pair": [1, 2], "calls": []}, state=[])
    past.reported("t0", 1)
    past.continued("t0", 2, 1)
    with closing(sqlite3.connect(past.path)) as database:
        database.execute("DROP TABLE metrics")  # reading the table would fail
    tuner = await host(code=code, past=past)
    assert not (await tuner.expect(m.Ready)).wants_metrics
    tuner.send(m.CatchUp(number=past.number))
    tuner.ask(1)
    await tuner.suggestions(1)
