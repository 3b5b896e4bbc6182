"""Constraints and the duplicates policy hold for every tuner, also after its process has died."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.enforcement import MOST_REFUSED
from nnimgr.identity import identity
from tests.dispatcher.conftest import Host, MakePast
from tests.dispatcher.hosting import Hosted
from tests.dispatcher.test_rebuild_builtin import (
    BATCH,
    FINITE,
    NUMBERS,
    SCENES,
    Experiment,
    changed,
    need,
)

COUNTER = """
    import nni
    from nni.tuner import Tuner

    class Mine(Tuner):
        {attributes}
        def __init__(self, start=0, step=1, end=10**9, modulus=10**9, says=False):
            self.at, self.step, self.end, self.modulus = start, step, end, modulus
            self.says, self.heard = says, []
        def update_search_space(self, search_space):
            pass
        def generate_parameters(self, parameter_id, **kwargs):
            if self.at >= self.end:
                raise nni.NoMoreTrialError
            self.at = (self.at + self.step) % self.modulus
            return {{"n": self.at, **({{"heard": self.heard}} if self.says else {{}})}}
        def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
            self.heard.append([parameter_id, parameters["n"], value])
"""
PLAIN = COUNTER.format(attributes="")
REPLAYED = COUNTER.format(attributes="replayable = True")
STATEFUL = COUNTER.format(
    attributes="""
        def dump_state(self): return self.at
        def load_state(self, state): self.at = state
"""
)


def numbers(texts: list[str]) -> list[int]:
    return [json.loads(text)["n"] for text in texts]


def ended(
    number: int, trial_id: str, parameter_id: int | None, parameters: Any, value: float
) -> m.TrialFinished:
    return m.TrialFinished(
        number=number,
        trial_id=trial_id,
        parameter_id=parameter_id,
        parameters=json.dumps(parameters),
        text=repr(value),
        success=True,
        value=value,
    )


async def test_a_tuner_that_knows_no_constraints_is_asked_again(host: Host) -> None:
    """The tuner is asked with the same id, and hears only of the set that was tried."""
    tuner = await host(code=PLAIN, class_args={"says": True}, constraints=("n % 5 == 0",))
    tuner.ask(0, 1)
    assert numbers(await tuner.suggestions(2)) == [5, 10]
    tuner.send(ended(3, "t", 0, {"n": 5}, 0.5))
    tuner.ask(2, fed_to=3)
    (text,) = await tuner.suggestions(1)
    assert json.loads(text) == {"n": 15, "heard": [[0, 5, 0.5]]}


async def test_it_may_run_out_of_sets_that_will_do(host: Host) -> None:
    tuner = await host(code=PLAIN, class_args={"end": 7}, constraints=("n % 5 == 0",))
    tuner.ask(0, 1, 2)
    assert numbers(await tuner.suggestions(1)) == [5]
    assert await tuner.expect(m.Answered) == m.Answered(missing=(1, 2), exhausted=True)
    assert not tuner.of_kind(m.Failed)


async def test_it_is_not_asked_for_ever(host: Host) -> None:
    tuner = await host(code=PLAIN, constraints=("n < 3",))
    tuner.ask(0, 1, 2)
    assert numbers(await tuner.suggestions(2)) == [1, 2]
    failed = await tuner.expect(m.Failed)
    assert not failed.fatal and not failed.hopeless
    assert failed.sentence == (
        f"none of the last {MOST_REFUSED:,} parameter sets can be used: the tuner counts as exhausted; "
        "the last set was refused because the constraint n < 3 is not met by n = 1002"
    )
    assert await tuner.expect(m.Answered) == m.Answered(missing=(2,), exhausted=True)
    tuner.send(m.SpaceChanged(number=1, search_space={}, constraints=("n < 2000",)))
    tuner.ask(3)
    assert numbers(await tuner.suggestions(1)) == [MOST_REFUSED + 3]


async def test_sets_for_many_ids_and_late_ones_are_looked_at(host: Host) -> None:
    code = """
        from nni.tuner import Tuner

        class Mine(Tuner):
            def __init__(self):
                self.at, self.owed, self.callback = 0, [], None
            def update_search_space(self, search_space):
                pass
            def generate_multiple_parameters(self, ids, **kwargs):
                self.callback = kwargs["st_callback"]
                if ids == [9]:
                    self.owed.append(9)
                    return []
                self.at += len(ids)
                return [{"n": self.at - len(ids) + place} for place in range(len(ids))]
            def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
                while self.owed:
                    self.callback(self.owed.pop(), {"n": self.at + int(value)})
    """
    tuner = await host(code=code, constraints=("n % 2 == 1",))
    tuner.ask(0, 1, 2)
    assert sorted(numbers(await tuner.suggestions(3))) == [1, 3, 5]
    await tuner.expect(m.Answered)
    tuner.ask(9)
    assert await tuner.expect(m.Answered) == m.Answered(missing=(9,), exhausted=False)
    tuner.send(ended(5, "t", 0, {"n": 1}, 0.0))  # brings set 6, which is refused; the tuner still owes a set
    assert await tuner.expect(m.Answered) == m.Answered(missing=(9,), exhausted=False, fed_to=5)
    tuner.send(ended(6, "u", 1, {"n": 3}, 1.0))
    assert numbers(await tuner.suggestions(1)) == [7]


async def test_a_set_that_was_tried_is_not_tried_again(host: Host) -> None:
    """Sets that users have submitted count as tried. Sets that never ran do not."""
    tuner = await host(code=PLAIN, class_args={"modulus": 4}, duplicates="skip")
    tuner.send(m.SetTried(number=1, parameters='{"n": 2.0}'))
    tuner.ask(0, 1, fed_to=1)
    assert numbers(await tuner.suggestions(2)) == [1, 3]
    tuner.send(
        m.TrialFinished(
            number=2, trial_id="t", parameter_id=0, parameters='{"n": 1}', text=None, success=False
        )
    )
    tuner.send(
        m.TrialFinished(
            number=3,
            trial_id="u",
            parameter_id=1,
            parameters='{"n": 3}',
            text=None,
            success=False,
            untried=True,
        )
    )
    tuner.ask(2, 3, 4, fed_to=3)
    assert numbers(await tuner.suggestions(2)) == [0, 3]
    failed = await tuner.expect(m.Failed)
    assert failed.sentence.endswith('the last set was refused because {"n": 3} was tried before')
    assert (await tuner.expect(m.Answered)).missing == (4,)


@pytest.mark.parametrize("fields", [{"code": PLAIN, "class_args": {"step": 0}}, {"name": "Random"}])
async def test_a_result_is_reused(host: Host, make_past: MakePast, fields: dict[str, Any]) -> None:
    """The first successful trial with equal parameters gives the reused result, once the trial has ended."""
    space = {"n": {"_type": "choice", "_value": [0]}}
    past = make_past(space)
    tuner = await host(duplicates="reuse", search_space=space, **fields)
    tuner.ask(0, 1)
    first, second = [await tuner.expect(m.Suggestion) for _ in range(2)]
    assert first.reuse is None and second.reuse is None
    for parameter_id, value in enumerate((None, {"default": 0.25, "more": [1]}, 0.5)):
        parameters = json.loads(first.parameters) | {"n": 0.0}
        trial_id = past.suggested(parameter_id, parameters)
        number = past.ended(trial_id, value, success=value is not None)
        tuner.send(
            m.TrialFinished(
                number=number,
                trial_id=trial_id,
                parameter_id=parameter_id,
                parameters=json.dumps(parameters),
                text=None if value is None else json.dumps(value),
                success=value is not None,
                value=0.25 if isinstance(value, dict) else value,
            )
        )
    again = await host(duplicates="reuse", search_space=space, past=past, **fields)
    for hosted in (tuner, again):
        hosted.ask(3, fed_to=past.number)
        found = await hosted.expect(m.Suggestion)
        assert found.reuse == ("t1", '{"default": 0.25, "more": [1]}', 0.25)
    assert not tuner.of_kind(m.Failed)


async def test_a_replicated_set_is_just_run(host: Host) -> None:
    space = {"n": {"_type": "choice", "_value": [1, 2]}}
    tuner = await host(search_space=space, duplicates="replicate")
    tuner.ask(*range(20))
    assert set(numbers(await tuner.suggestions(20))) == {1, 2}
    assert all(each.reuse is None for each in tuner.of_kind(m.Suggestion))


@pytest.mark.parametrize("code", [REPLAYED, STATEFUL, PLAIN])
async def test_what_was_refused_is_refused_again(host: Host, make_past: MakePast, code: str) -> None:
    """Whichever way it is rebuilt, the tuner continues where it was, under the constraints of that time."""
    past = make_past({"n": {"_type": "randint", "_value": [0, 9]}})
    fields: dict[str, Any] = {"code": code, "constraints": ("n % 3 == 0",), "duplicates": "skip"}
    tuner = await host(**{**fields, "constraints": ()})
    tuner.ask(0, fed_to=past.number)
    (text,) = await tuner.suggestions(1)
    assert numbers([text]) == [1]
    past.suggested(0, text, state=1)
    number = past.space_changed({"n": {}}, constraints=["n % 3 == 0"])
    tuner.send(m.SpaceChanged(number=number, search_space={"n": {}}, constraints=("n % 3 == 0",)))
    past.suggested(None, {"n": 6})
    tuner.send(m.SetTried(number=past.number, parameters='{"n": 6}'))
    tuner.ask(1, 2, fed_to=past.number)
    texts = await tuner.suggestions(2)
    assert numbers(texts) == [3, 9]
    for parameter_id, (given, state) in enumerate(zip(texts, (3, 9), strict=True), 1):
        past.suggested(parameter_id, given, state=state, fed_to=past.number)
    again = await host(past=past, **fields)
    ready = await again.expect(m.Ready)
    again.ask(3, fed_to=past.number)
    tuner.ask(3, fed_to=past.number)
    expected = [12]
    assert numbers(await tuner.suggestions(1)) == expected
    # A tuner without a state starts from the beginning, but still repeats no set.
    assert numbers(await again.suggestions(1)) == expected
    assert (ready.note is None) == (code is not PLAIN)


RULES = {"MIXED": ["x < 5", "n != 2 or c == 'a'"], "FINITE": ["n < 4 or c == 'a'"], "BATCH": ["n < 12"]}
Scene = tuple[str, dict[str, Any], dict[str, Any]]
# One scenario per tuner, with a finite search space if the tuner has such a scenario.
BY_TUNER: dict[str, Scene] = {}
for scene in cast("list[Scene]", SCENES):
    if scene[1] is FINITE or (scene[0] not in BY_TUNER and scene[1] is not NUMBERS):
        BY_TUNER[scene[0]] = scene


def constraints_of(space: dict[str, Any]) -> list[str]:
    return RULES["BATCH" if space is BATCH else "FINITE" if space is FINITE else "MIXED"]


@pytest.mark.parametrize(
    ("duplicates", "name"),
    [*(("skip", name) for name in BY_TUNER), ("replicate", "TPE"), ("reuse", "Random")],
)
async def test_built_in_tuners_go_on_under_rules(
    host: Host, make_past: MakePast, name: str, duplicates: str
) -> None:
    """A new process gives the same sets as the first one, also if the constraints have changed since."""
    need(name)
    _, space, arguments = BY_TUNER[name]
    rules = constraints_of(space)
    fields: dict[str, Any] = {"name": name, "class_args": arguments, "duplicates": duplicates}
    past = make_past(space, constraints=rules)
    tuner: Hosted = await host(**fields, search_space=space, constraints=tuple(rules))
    experiment = Experiment(tuner, past)
    experiment.told = past.number
    for parameter_id in range(10):
        if parameter_id == 3 and space is not BATCH:
            experiment.run_by_hand({"n": 1, "c": "b"})
            experiment.told = past.number
            if duplicates == "skip":
                tuner.send(m.SetTried(number=past.number, parameters='{"n": 1, "c": "b"}'))
            experiment.end(0.25)
        if parameter_id == 5:
            space, rules = changed(space), [*rules, "n != 0"]
            experiment.told = past.space_changed(space, constraints=rules)
            tuner.send(m.SpaceChanged(number=past.number, search_space=space, constraints=tuple(rules)))
        text = await experiment.ask(parameter_id)
        if parameter_id == 8:
            up_to = experiment.asked_at
            again = await host(
                past=past, **fields, search_space=space, constraints=tuple(rules), rebuild_to=up_to
            )
            again.ask(parameter_id, fed_to=up_to)
            assert await again.suggestions(1) == [text]
        if len(experiment.running) == 2:
            experiment.end(0.5 * parameter_id)
    given = [json.loads(each.parameters) for each in tuner.of_kind(m.Suggestion)]
    assert len(given) == 10 and all(each["n"] != 0 for each in given[5:])
    if duplicates == "skip":
        assert len({identity(each) for each in given}) == 10
        assert {"c": "b", "n": 1} not in given[3:]
