"""Tuners that are rebuilt after their process died: by recalling, from a state, by replay, by import."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nnimgr.dispatcher import messages as m
from tests.dispatcher.conftest import Host, MakePast
from tests.dispatcher.past import Past

SPACE = {"x": {"_type": "choice", "_value": [1, 2, 3]}, "y": {"_type": "randint", "_value": [0, 4]}}

COUNTER = """
    import random
    from nni.tuner import Tuner

    class Mine(Tuner):
        {attributes}
        def __init__(self, step=1):
            self.total, self.step, self.spaces, self.seen = 0, step, [], []
        def update_search_space(self, search_space):
            self.spaces.append(search_space["n"])
        def generate_parameters(self, parameter_id, **kwargs):
            self.total += self.step
            return {{"total": self.total, "spaces": self.spaces, "seen": self.seen}}
        def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
            self.total += value
        def trial_end(self, parameter_id, success, **kwargs):
            self.seen.append([parameter_id, success])
        def import_data(self, data):
            self.seen.append(data)
        def load_checkpoint(self):
            self.seen.append("checkpoint")
"""
STATEFUL = COUNTER.format(
    attributes="""
        def dump_state(self): return {"total": self.total, "seen": list(self.seen)}
        def load_state(self, state): self.total, self.seen = state["total"], state["seen"]
"""
)


def counted(total: int, spaces: list[int], seen: list[Any]) -> dict[str, Any]:
    return {"total": total, "spaces": spaces, "seen": seen}


def tell(hosted: Any, past: Past, trial_id: str, value: Any) -> None:
    """End the trial, in the database and by line."""
    number = past.ended(trial_id, value)
    parameter_id = int(trial_id[1:])
    hosted.send(
        m.TrialFinished(
            number=number,
            trial_id=trial_id,
            parameter_id=parameter_id,
            parameters="{}",
            text=json.dumps(value),
            success=True,
        )
    )


async def ask(hosted: Any, *ids: int, fed_to: int = 0) -> list[Any]:
    hosted.ask(*ids, fed_to=fed_to)
    found = [json.loads(text) for text in await hosted.suggestions(len(ids))]
    await hosted.expect(m.Answered)
    return found


async def test_random_goes_on_as_if_nothing_had_happened(host: Host, make_past: MakePast) -> None:
    uninterrupted = await host(search_space=SPACE)
    expected = await ask(uninterrupted, *range(12))
    assert len({json.dumps(found) for found in expected}) == 12
    past = make_past(SPACE)
    for parameter_id, parameters in enumerate(expected[:7]):
        past.suggested(parameter_id, parameters)
    again = await host(search_space=SPACE, past=past)
    assert (await again.expect(m.Ready)).note is None
    assert await ask(again, *range(7, 12)) == expected[7:]
    again.ask(12)
    assert await again.expect(m.Answered) == m.Answered(missing=(12,), exhausted=True, fed_to=8)


async def test_random_knows_a_changed_space(host: Host, make_past: MakePast) -> None:
    wider = {**SPACE, "y": {"_type": "randint", "_value": [0, 5]}}
    first = await host(search_space=SPACE)
    expected = await ask(first, *range(12))
    first.send(m.SpaceChanged(number=40, search_space=wider))
    expected += await ask(first, *range(12, 15), fed_to=40)
    past = make_past(SPACE)
    for parameter_id, parameters in enumerate(expected[:13]):
        if parameter_id == 12:
            past.space_changed(wider)
        past.suggested(parameter_id, parameters)
    again = await host(search_space=wider, past=past)
    assert await ask(again, 13, 14) == expected[13:]


async def test_every_recorded_suggestion_can_be_computed_again(host: Host, make_past: MakePast) -> None:
    expected = await ask(await host(search_space=SPACE), *range(12))
    past = make_past(SPACE)
    for parameter_id, parameters in enumerate(expected):
        up_to = past.number
        again = await host(search_space=SPACE, past=past, rebuild_to=up_to)
        assert await ask(again, parameter_id) == [parameters]
        past.suggested(parameter_id, parameters)
        await again.child.close()


async def test_a_state_is_loaded_and_later_facts_are_fed(host: Host, make_past: MakePast) -> None:
    past = make_past({"n": 1})
    first = await host(past=past, code=STATEFUL, search_space={"n": 1})
    first.ask(0, 1, fed_to=past.number)
    trials = []
    for _ in range(2):
        found = await first.expect(m.Suggestion)
        assert found.state is not None
        trials.append(past.suggested(found.parameter_id, found.parameters, state=json.loads(found.state)))
    past.ended(trials[0], 100)
    past.space_changed({"n": 2})
    past.ended(trials[1], float("nan"))
    again = await host(past=past, code=STATEFUL, search_space={"n": 2})
    assert await ask(again, 2) == [counted(103, [1, 2], [[0, True], [1, False]])]
    assert not again.of_kind(m.Noted)


RECALLING = COUNTER.format(
    attributes="""
        def dump_state(self): return {"total": self.total}
        def load_state(self, state): raise AssertionError("it has recall")
        def recall(self, parameter_id, parameters, state):
            self.seen.append([parameter_id, state])
            self.total = state["total"] if state else self.total
"""
)


async def test_a_state_is_recalled_with_the_set_it_was_dumped_with(host: Host, make_past: MakePast) -> None:
    past = make_past({"n": 1})
    first = await host(past=past, code=RECALLING, search_space={"n": 1})
    past.suggested(0, {}, state=None)  # a set of another tuner
    for parameter_id in (1, 2):
        first.ask(parameter_id, fed_to=past.number)
        found = await first.expect(m.Suggestion)
        assert found.state is not None and json.loads(found.state) == {"total": parameter_id}
        past.suggested(parameter_id, found.parameters, state=json.loads(found.state))
    past.ended("t1", 100)
    past.suggested(3, {}, fed_to=2, state={"total": 5})  # asked for before the tuner heard of that end
    again = await host(past=past, code=RECALLING, search_space={"n": 1})
    seen = [[0, None], [1, {"total": 1}], [3, {"total": 5}], [2, {"total": 2}], [1, True]]
    assert await ask(again, 4) == [counted(103, [1], seen)]


async def test_a_recall_that_takes_no_state_is_given_none(host: Host, make_past: MakePast) -> None:
    code = (
        STATEFUL
        + """
        def recall(self, parameter_id, parameters): self.seen.append(parameters)
"""
    )
    past = make_past({"n": 1})
    past.suggested(0, {"x": 1}, state={"total": 9, "seen": []})
    again = await host(past=past, code=code, search_space={"n": 1})
    assert await ask(again, 1) == [counted(1, [1], [{"x": 1}])]
    assert [found.state for found in again.of_kind(m.Suggestion)] == [None]


async def test_a_replayable_tuner_gets_the_same_calls(host: Host, make_past: MakePast) -> None:
    code = COUNTER.format(attributes="replayable = True")
    past = make_past({"n": 1})
    zero = past.suggested(0, counted(1, [1], []))
    one = past.suggested(1, counted(2, [1], []))
    asked = past.number
    past.ended(zero, 10)
    past.suggested(2, counted(3, [1], []), fed_to=asked)  # asked for before the tuner heard of the end above
    past.imported({"parameter": 1, "value": 5})
    past.ended(one, success=False)
    again = await host(past=past, code=code, search_space={"n": 1})
    imported = [{"parameter": 1, "value": 5}]
    assert await ask(again, 3) == [counted(14, [1], [[0, True], imported, [1, False]])]


async def test_what_a_users_tuner_leaves_in_circles_is_collected_while_it_is_rebuilt(
    host: Host, make_past: MakePast
) -> None:
    code = """
        import gc
        from nni.tuner import Tuner

        class Mine(Tuner):
            replayable = True
            def update_search_space(self, search_space):
                pass
            def generate_parameters(self, parameter_id, **kwargs):
                return {"collects": gc.isenabled(), "frozen": gc.get_freeze_count()}
    """
    past = make_past()
    sets = {"collects": True, "frozen": 0}
    past.suggested(0, sets)
    again = await host(past=past, code=code)
    assert await ask(again, 1) == [sets]


async def test_a_replay_that_differs_is_hopeless_and_names_both(host: Host, make_past: MakePast) -> None:
    code = COUNTER.format(attributes="replayable = True")
    past = make_past({"n": 1})
    past.suggested(0, counted(7, [1], []))
    again = await host(past=past, code=code, search_space={"n": 1})
    failed = await again.expect(m.Failed)
    assert failed.hopeless
    assert '{"total": 1' in failed.sentence and '{"total": 7' in failed.sentence


async def test_any_other_tuner_is_resumed_as_nni_does(host: Host, make_past: MakePast) -> None:
    code = COUNTER.format(attributes="")
    past = make_past({"n": 1})
    done, failed, nan, live = (past.suggested(i, {"i": i}) for i in range(4))
    past.imported({"parameter": "p", "value": "0.5"})
    past.ended(done, 3)
    past.ended(failed, 4, success=False)
    past.ended(nan, float("nan"))
    past.space_changed({"n": 2})
    again = await host(past=past, code=code, search_space={"n": 2})
    assert (await again.expect(m.Ready)).note == (
        "the tuner was restarted, and keeps no state. It got the 2 finished trials through import_data; "
        "it will get the results of the open one in the same way"
    )
    records = [{"parameter": "p", "value": 0.5}, {"parameter": {"i": 0}, "value": 3}]
    assert await ask(again, 4, fed_to=past.number) == [counted(1, [2], ["checkpoint", records])]
    past.suggested(4, {})
    tell(again, past, live, 9)
    tell(again, past, "t4", 20)
    late = [{"parameter": {}, "value": 9}]
    seen = ["checkpoint", records, late, [4, True]]
    assert await ask(again, 5, fed_to=past.number) == [counted(22, [2], seen)]


async def test_a_tuner_that_cannot_hear_of_the_past_is_said_to_know_nothing_of_it(
    host: Host, make_past: MakePast
) -> None:
    code = """
        from nnimgr.algorithm import Tuner

        class Mine(Tuner):
            def update_search_space(self, search_space): pass
            def generate_parameters(self, parameter_id, **kwargs): return {"n": parameter_id}
            def receive_trial_result(self, parameter_id, parameters, value, **kwargs): pass
    """
    past = make_past()
    done, _ = (past.suggested(i, {"n": i}) for i in range(2))
    past.ended(done, 3)  # perhaps while the server was down
    again = await host(past=past, code=code)
    assert (await again.expect(m.Ready)).note == (
        "the tuner was restarted, and keeps no state. It has no import_data, so it knows nothing of the "
        "finished trial, and will not get the results of the open one. "
        "Give it import_data, or dump_state and load_state"
    )


async def test_a_fact_that_comes_by_line_once_more_is_not_told_twice(host: Host, make_past: MakePast) -> None:
    code = COUNTER.format(attributes="def recall(self, parameter_id, parameters): pass")
    past = make_past({"n": 1})
    trial, other = past.suggested(0, {}), past.suggested(1, {})
    tuner = await host(past=past, code=code, search_space={"n": 1}, rebuild_to=past.number + 1)
    await tuner.expect(m.Ready)
    tell(tuner, past, trial, 5)  # not in the database when the child read it
    again = await host(past=past, code=code, search_space={"n": 1})
    for hosted in (tuner, again):
        hosted.send(
            m.TrialFinished(
                number=past.number, trial_id=trial, parameter_id=0, parameters="{}", text="5", success=True
            )
        )
        assert await ask(hosted, 2) == [counted(6, [1], [[0, True]])]
    number = past.ended(other, 2)
    tuner.send(m.CatchUp(number=number))
    assert await ask(tuner, 3) == [counted(9, [1], [[0, True], [1, True]])]


@pytest.mark.parametrize("attributes", ["replayable = True", ""])
async def test_failures_of_the_past_are_not_told_again(
    host: Host, make_past: MakePast, attributes: str
) -> None:
    code = COUNTER.format(attributes=attributes).replace("self.total += value", "raise ValueError('again')")
    past = make_past({"n": 1})
    past.ended(past.suggested(0, counted(1, [1], [])), 3)
    past.ended(past.suggested(1, counted(2, [1], [[0, True]])), float("nan"))
    again = await host(past=past, code=code, search_space={"n": 1})
    note = (await again.expect(m.Ready)).note or ""
    assert not again.of_kind(m.Failed) and not again.of_kind(m.Noted)
    if attributes:
        assert note.startswith(
            "1 calls raised an exception again while the tuner was rebuilt: the tuner's receive_trial_result"
        )


async def test_a_database_that_cannot_be_read_is_told(host: Host) -> None:
    tuner = await host(database="/nowhere/at/all", rebuild_to=5)
    failed = await tuner.expect(m.Failed)
    assert failed.fatal and "unable to open database file" in failed.sentence


@pytest.mark.parametrize(
    ("code", "seen", "total"),
    [
        (STATEFUL, [[0, False]], 1.0 - 2.5),
        (COUNTER.format(attributes=""), ["checkpoint", [{"parameter": {"total": 1}, "value": -2.5}]], 0),
    ],
)
async def test_what_stood_in_for_a_result_is_told_again(
    host: Host, make_past: MakePast, code: str, seen: list[Any], total: float
) -> None:
    """A tuner that keeps a state gets stand-ins as results. Any other tuner gets them as imported data."""
    past = make_past({"n": 1})
    trial = past.suggested(0, {"total": 1}, state={"total": 1.0, "seen": []})
    past.ended(trial, success=False, stand_in=-2.5)
    again = await host(past=past, code=code, search_space={"n": 1})
    (found,) = await ask(again, 1, fed_to=past.number)
    assert (found["total"], found["seen"]) == (total + 1, seen)
