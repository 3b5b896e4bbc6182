"""A tuner in its process: the calls it gets, and the effect of its answers and errors."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from nnimgr.dispatcher import messages as m
from tests.dispatcher.conftest import Host

RECORDER = """
    import json, logging
    import nni.tuner

    class Mine(nni.tuner.Tuner):
        def __init__(self, start=0):
            self.calls = []
            self.at = start
            print("hello from the constructor")
        def update_search_space(self, search_space):
            self.calls.append(["space", search_space])
        def generate_parameters(self, parameter_id, **kwargs):
            self.at += 1
            return {"id": parameter_id, "at": self.at, "calls": self.calls, "pair": (1, 2)}
        def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
            self.calls.append(["result", parameter_id, parameters["at"], value, kwargs["customized"],
                               kwargs["trial_job_id"], isinstance(parameters["pair"], tuple)])
        def trial_end(self, parameter_id, success, **kwargs):
            self.calls.append(["end", parameter_id, success, kwargs["trial_job_id"]])
        def import_data(self, data):
            self.calls.append(["import", data])
        def _on_exit(self):
            print("goodbye")
"""


def finished(
    number: int, parameter_id: int | None, text: str | None, *, success: bool = True
) -> m.TrialFinished:
    return m.TrialFinished(
        number=number,
        trial_id=f"t{number}",
        parameter_id=parameter_id,
        parameters='{"at": 0, "pair": []}',
        text=text,
        success=success,
    )


async def test_calls_come_as_in_nni_and_in_order(host: Host) -> None:
    tuner = await host(code=RECORDER, class_args={"start": 10}, search_space={"x": 1})
    assert (await tuner.expect(m.Ready)).learns
    tuner.ask(0, 1)
    first = json.loads((await tuner.suggestions(2))[0])
    assert first == {"id": 0, "at": 11, "calls": [["space", {"x": 1}]], "pair": [1, 2]}
    assert await tuner.expect(m.Answered) == m.Answered(missing=(), exhausted=False)
    tuner.send(finished(5, 0, "0.5"))
    tuner.send(finished(6, 1, None, success=False))
    tuner.send(finished(7, None, "1"))
    tuner.send(
        m.Imported(number=8, records='[{"parameter": 3, "value": "0.25"}, {"parameter": 4, "value": 1}]')
    )
    tuner.send(m.SpaceChanged(number=9, search_space={"y": 2}))
    tuner.ask(2, fed_to=9)
    suggestion = await tuner.expect(m.Suggestion)
    assert suggestion.fed_to == 9
    assert json.loads(suggestion.parameters)["calls"] == [
        ["space", {"x": 1}],
        ["result", 0, 11, 0.5, False, "t5", True],
        ["end", 0, True, "t5"],
        ["end", 1, False, "t6"],
        ["import", [{"parameter": 3, "value": 0.25}, {"parameter": 4, "value": 1}]],
        ["space", {"y": 2}],
    ]
    await tuner.child.close()
    assert "hello from the constructor" in tuner.log.read_text()
    assert "goodbye" in tuner.log.read_text()
    assert not tuner.exits


async def test_customised_trials_reach_a_tuner_that_accepts_them(host: Host) -> None:
    code = RECORDER.replace("self.at = start", "self.at = start; self._accept_customized_trials()")
    tuner = await host(code=code)
    tuner.send(finished(5, None, "1"))
    tuner.ask(0, fed_to=5)
    calls = json.loads((await tuner.suggestions(1))[0])["calls"]
    assert calls[1:] == [["result", None, 0, 1, True, "t5", False], ["end", None, True, "t5"]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("NaN", "is nan, which is not finite"),
        ("-Infinity", "is -inf, which is not finite"),
        ("1" + 400 * "0", "is an integer of more than 308 digits, which is too large"),
        ('{"default": NaN}', 'has as "default" nan, which is not finite'),
    ],
)
async def test_a_result_that_is_not_finite_is_a_failed_observation(host: Host, text: str, told: str) -> None:
    tuner = await host(code=RECORDER)
    tuner.ask(0)
    tuner.send(finished(5, 0, text))
    assert await tuner.expect(m.Noted) == m.Noted(
        trial_id="t5", note=f"its final result {told}: the tuner treats the trial as failed"
    )
    tuner.ask(1, fed_to=5)
    assert json.loads((await tuner.suggestions(1))[0])["calls"][1:] == [["end", 0, False, "t5"]]


@pytest.mark.parametrize("text", ['"oops"', "null", "true", "[1]", '{"accuracy": 1}'])
async def test_a_built_in_tuner_takes_no_result_but_numbers(host: Host, text: str) -> None:
    tuner = await host()
    tuner.ask(0)
    tuner.send(finished(5, 0, text))
    assert "the tuner treats the trial as failed" in (await tuner.expect(m.Noted)).note


async def test_an_exception_in_a_handler_is_told_and_changes_nothing_else(host: Host) -> None:
    code = RECORDER.replace(
        'self.calls.append(["result",', 'nni.utils.extract_scalar_reward(value); (["result",'
    )
    tuner = await host(code=code.replace("import nni.tuner", "import nni.tuner, nni.utils"))
    tuner.ask(0)
    tuner.send(finished(5, 0, '"oops"'))
    failed = await tuner.expect(m.Failed)
    assert (failed.call, failed.trial_id, failed.fatal) == ("receive_trial_result", "t5", False)
    assert failed.sentence.startswith(
        "the tuner's receive_trial_result raised RuntimeError: a result must be"
    )
    assert failed.traceback.splitlines()[1].endswith("in receive_trial_result")
    tuner.ask(1, fed_to=5)
    assert json.loads((await tuner.suggestions(1))[0])["calls"][1:] == [["end", 0, True, "t5"]]


@pytest.mark.parametrize(
    ("code", "call", "told"),
    [
        ("raise ImportError('no such thing')", "import", "ImportError: no such thing"),
        ("class Mine: pass; x = (", "import", "SyntaxError"),
        ("class Miner: pass", "import", "has no class Mine; did you mean Miner?"),
        (
            "class Mine:\n  def __init__(self): raise ValueError('bad\\nluck')",
            "constructor",
            "ValueError: bad luck",
        ),
        ("class Mine:\n  def __init__(self, *, depth): pass", "constructor", "depth"),
        ("class Mine:\n  pass", "update_search_space", "no attribute 'update_search_space'"),
    ],
)
async def test_what_cannot_be_built_is_hopeless(host: Host, code: str, call: str, told: str) -> None:
    tuner = await host(code=code)
    failed = await tuner.expect(m.Failed)
    assert (failed.call, failed.fatal, failed.hopeless) == (call, True, True)
    assert told in failed.sentence
    assert "exited with status 1" in await tuner.exited()
    assert "nnimgr/" not in failed.traceback


async def test_an_exception_while_generating_ends_the_process(host: Host) -> None:
    tuner = await host(code=RECORDER.replace("self.at += 1", "1 / 0"))
    tuner.ask(0)
    failed = await tuner.expect(m.Failed)
    assert (failed.call, failed.fatal, failed.hopeless) == ("generate_parameters", True, False)
    assert "ZeroDivisionError" in failed.traceback
    assert "exited with status 1" in await tuner.exited()


async def test_an_exception_whose_text_fails_does_not_hide_itself(host: Host) -> None:
    code = dedented(
        """
        class Silent(Exception):
            def __str__(self): raise RuntimeError("no text")
        """
    ) + RECORDER.replace("self.at += 1", "raise Silent")
    tuner = await host(code=code)
    tuner.ask(0)
    failed = await tuner.expect(m.Failed)
    assert failed.sentence == "the tuner's generate_parameters raised Silent: <exception str() failed>"
    assert failed.traceback.endswith("Silent: <exception str() failed>\n")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("float('nan')", "ValueError"),
        ("object()", "has no JSON form"),
        ("eval('[' * 90 + ']' * 90)", "nested too deeply"),
        (r"'\ud800'", "surrogates not allowed"),
    ],
)
async def test_parameters_that_json_cannot_hold_are_an_error(host: Host, value: str, told: str) -> None:
    tuner = await host(code=RECORDER.replace("(1, 2)", value))
    tuner.ask(0)
    failed = await tuner.expect(m.Failed)
    assert failed.fatal and told in failed.sentence


async def test_numpy_like_values_become_plain_numbers(host: Host) -> None:
    code = RECORDER.replace(
        '"pair": (1, 2)', '"pair": Scalar(3), Scalar("key"): Scalar([1, Scalar(0.5)])'
    ) + dedented(
        """
        class Scalar:
            def __init__(self, inner): self.inner = inner
            def tolist(self): return self.inner
            def __hash__(self): return 1
        """
    )
    tuner = await host(code=code)
    tuner.ask(0)
    found = json.loads((await tuner.suggestions(1))[0])
    assert (found["pair"], found["key"]) == (3, [1, 0.5])


def dedented(text: str) -> str:
    """Indent code like the methods in RECORDER."""
    return text.replace("\n        ", "\n    ")


@pytest.mark.parametrize(
    ("end", "told"), [("import sys; sys.exit(3)", "status 3"), ("import os; os._exit(4)", "status 4")]
)
async def test_a_tuner_that_ends_its_process_is_seen(host: Host, end: str, told: str) -> None:
    tuner = await host(code=RECORDER.replace("self.at += 1", end))
    tuner.ask(0)
    assert told in await tuner.exited()
    failures = tuner.of_kind(m.Failed)
    if "sys" in end:
        assert [failed.sentence for failed in failures] == [
            "the tuner ended its process in generate_parameters: SystemExit: 3"
        ]
        assert failures[0].fatal


async def test_exhaustion_and_late_suggestions(host: Host) -> None:
    tuner = await host(
        code="""
        import nni.tuner
        from nnimgr.algorithm import NoMoreTrialError

        class Mine(nni.tuner.Tuner):
            def update_search_space(self, search_space): pass
            def generate_multiple_parameters(self, ids, **kwargs):
                self.later = kwargs["st_callback"]
                if ids == [8]:
                    return []
                if ids == [9]:
                    raise NoMoreTrialError
                return [[i] for i in ids[:2]]
            def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
                self.later(value, {"late": True})
        """
    )
    tuner.ask(0, 1, 2, 3)
    assert await tuner.suggestions(2) == ["[0]", "[1]"]
    assert await tuner.expect(m.Answered) == m.Answered(missing=(2, 3), exhausted=False)
    tuner.send(finished(5, 0, "3"))
    late = await tuner.expect(m.Suggestion)
    assert (late.parameter_id, late.parameters, late.fed_to) == (3, '{"late": true}', 5)
    tuner.send(finished(6, 1, "3"))
    assert "for which no set is requested" in (await tuner.expect(m.Failed)).sentence
    tuner.ask(8, fed_to=6)
    assert await tuner.expect(m.Answered) == m.Answered(missing=(8,), exhausted=False, fed_to=6)
    tuner.ask(9, fed_to=6)
    assert await tuner.expect(m.Answered) == m.Answered(missing=(9,), exhausted=True, fed_to=6)
    tuner.send(finished(7, None, "2"))


async def test_imported_results_that_are_not_finite_are_left_out_and_told(host: Host) -> None:
    tuner = await host(code=RECORDER)
    tuner.send(
        m.Imported(number=3, records='[{"parameter": 1, "value": NaN}, {"parameter": 2, "value": 5}, 8]')
    )
    failed = await tuner.expect(m.Failed)
    assert failed.sentence.startswith("the tuner does not get 2 of 3 imported results") and not failed.fatal
    tuner.ask(0, fed_to=3)
    calls = json.loads((await tuner.suggestions(1))[0])["calls"]
    assert calls[1:] == [["import", [{"parameter": 2, "value": 5}]]]


async def test_the_seed_of_the_experiment_counts_unless_class_args_name_one(host: Host) -> None:
    space = {"x": {"_type": "uniform", "_value": [0, 1]}, "n": {"_type": "randint", "_value": [0, 9]}}
    found = []
    for fields in ({"seed": 1}, {"seed": 2}, {"seed": 3, "class_args": {"seed": 1}}):
        tuner = await host(search_space=space, **fields)
        tuner.ask(0, 1)
        assert not (await tuner.expect(m.Ready)).learns
        found.append(await tuner.suggestions(2))
    assert found[0] == found[2] != found[1]
    assert list(json.loads(found[0][0])) == ["x", "n"]


async def test_a_failed_trial_may_come_with_a_result_in_its_stead(host: Host) -> None:
    tuner = await host(code=RECORDER)
    tuner.ask(0, 1, 2)
    await tuner.suggestions(3)
    tuner.send(replace(finished(5, 0, "0.9", success=False), stand_in="-1.5"))
    tuner.send(replace(finished(6, 1, "NaN"), stand_in="-1.5"))
    tuner.send(replace(finished(7, 2, "0.5"), stand_in="-1.5"))
    assert await tuner.expect(m.Noted) == m.Noted(
        trial_id="t6",
        note="its final result is nan, which is not finite: the tuner treats the trial as failed "
        "and gets the result -1.5 instead",
    )
    tuner.ask(3)
    calls = json.loads((await tuner.suggestions(1))[0])["calls"]
    assert [call for call in calls if call[0] != "space"] == [
        ["result", 0, 1, -1.5, False, "t5", True],
        ["end", 0, False, "t5"],
        ["result", 1, 2, -1.5, False, "t6", True],
        ["end", 1, False, "t6"],
        ["result", 2, 3, 0.5, False, "t7", True],
        ["end", 2, True, "t7"],
    ]


# ---- objectives -------------------------------------------------------------------------------------------

BOTH = {"accuracy": "maximize", "latency": "minimize"}


async def test_a_tuner_is_told_of_objectives_and_gets_results_as_they_are(host: Host) -> None:
    code = (
        RECORDER
        + """
        def set_objectives(self, objectives):
            self.calls.append(["objectives", list(objectives.items())])
"""
    )
    tuner = await host(code=code, objectives=BOTH, search_space={})
    tuner.ask(0, 1, 2)
    for number, text in ((5, '{"accuracy": 0.5, "latency": 3, "note": "x"}'), (6, "0.5")):
        tuner.send(finished(number, number - 5, text))
    tuner.send(finished(7, 2, '{"accuracy": 0.5, "latency": NaN}'))
    notes = [(await tuner.expect(m.Noted)).note for _ in range(2)]
    assert notes[0].startswith(
        "its final result is 0.5, which is not a mapping with a number for each objective"
    )
    assert notes[1].startswith('its final result has as "latency" nan, which is not finite')
    records = [{"parameter": {}, "value": '{"accuracy": 1, "latency": 2}'}, {"parameter": {}, "value": 1}]
    tuner.send(m.Imported(number=8, records=json.dumps(records)))
    failed = await tuner.expect(m.Failed)
    assert failed.sentence.startswith(
        "the tuner does not get 1 of 2 imported results; for example, number 2 is 1, which is not a map"
    )
    tuner.ask(3)
    calls = json.loads((await tuner.suggestions(1))[0])["calls"]
    assert calls[:2] == [["objectives", [["accuracy", "maximize"], ["latency", "minimize"]]], ["space", {}]]
    results = [call[3] for call in calls if call[0] == "result"]
    assert results == [{"accuracy": 0.5, "latency": 3, "note": "x"}]
    assert [call[:3] for call in calls if call[0] == "end"] == [
        ["end", 0, True],
        ["end", 1, False],
        ["end", 2, False],
    ]
    assert calls[-1] == ["import", [{"parameter": {}, "value": {"accuracy": 1, "latency": 2}}]]


async def test_a_built_in_tuner_finds_one_objective_as_its_number(host: Host) -> None:
    """TPE suggests values near those with the best objective, whatever other numbers a result has."""
    space = {"x": {"_type": "choice", "_value": list(range(40))}}
    suggested = []
    for objectives, key, mode in (({"size": "maximize"}, "size", None), ({}, "default", "maximize")):
        arguments = {"tpe_args": {"n_startup_jobs": 1}, **({"optimize_mode": mode} if mode else {})}
        fields = {"name": "TPE", "class_args": arguments, "search_space": space, "objectives": objectives}
        tuner = await host(**fields)
        records = [{"parameter": {"x": x}, "value": {key: x, "else": -x}} for x in range(20)]
        tuner.send(m.Imported(number=1, records=json.dumps(records)))
        tuner.ask(*range(5), fed_to=1)
        suggested.append(await tuner.suggestions(5))
    assert suggested[0] == suggested[1]
    assert min(json.loads(text)["x"] for text in suggested[0]) >= 15


WAITER = """
    import nni
    from nni.tuner import Tuner

    class Mine(Tuner):
        waits = True
        def __init__(self):
            self.ready, self.results = [0, 1], 0
        def update_search_space(self, search_space):
            pass
        def why_waiting(self):
            return f"it has {self.results} results and wants 2"
        def generate_multiple_parameters(self, parameter_id_list, **kwargs):
            if self.results == 3:
                raise nni.NoMoreTrialError("that was all")
            found, self.ready = self.ready[:len(parameter_id_list)], self.ready[len(parameter_id_list):]
            return found
        def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
            self.results += 1
            if self.results == 2:
                self.ready = [2, 3]
"""


async def test_one_that_waits_is_asked_again_after_what_it_is_told(host: Host) -> None:
    tuner = await host(code=WAITER)
    tuner.ask(0, 1, 2, 3, 4)
    assert await tuner.suggestions(2) == ["0", "1"]
    answer = await tuner.expect(m.Answered)
    assert answer == m.Answered(missing=(2, 3, 4), exhausted=False, why="it has 0 results and wants 2")
    tuner.ask(5)
    assert (await tuner.expect(m.Answered)).missing == (2, 3, 4, 5)
    tuner.send(finished(5, 0, "0.5"))
    assert (await tuner.expect(m.Answered)).why == "it has 1 results and wants 2"
    tuner.send(finished(6, 2, None, success=False))  # no further message is sent
    tuner.send(finished(7, 1, "0.5"))
    found = [await tuner.expect(m.Suggestion) for _ in range(2)]
    assert [(each.parameter_id, each.parameters, each.fed_to) for each in found] == [(2, "2", 7), (3, "3", 7)]
    answer = await tuner.expect(m.Answered)
    assert (answer.missing, answer.exhausted, answer.fed_to) == ((4, 5), False, 7)
    tuner.send(finished(8, 2, "0.5"))
    answer = await tuner.expect(m.Answered)
    assert (answer.missing, answer.exhausted, answer.why) == ((4, 5), True, "")
    tuner.send(finished(9, 3, "0.5"))
    tuner.ask(6)
    assert (await tuner.expect(m.Answered)).missing == (6,)
    assert len(tuner.of_kind(m.Answered)) == 6


async def test_hyperband_says_what_it_waits_for_and_goes_on(host: Host) -> None:
    arguments = {"R": 3, "exec_mode": "serial", "optimize_mode": "minimize"}
    tuner = await host(name="Hyperband", class_args=arguments)
    tuner.ask(0, 1, 2, 3)
    given = await tuner.suggestions(3)
    assert (await tuner.expect(m.Answered)).why == (
        "it waits for 3 trials of bracket 1, rung 1 (budget 1), to promote the best"
    )
    for number, (parameter_id, value) in enumerate([(0, "NaN"), (1, "2"), (2, "3")]):
        tuner.send(replace(finished(number + 1, parameter_id, value), parameters=given[parameter_id]))
    (promoted,) = await tuner.suggestions(1)
    assert json.loads(promoted) == {**json.loads(given[1]), "TRIAL_BUDGET": 3}


KEYWORDS = """
    from nni.tuner import Tuner

    class Mine(Tuner):
        def update_search_space(self, search_space):
            self.ends = []
        def generate_parameters(self, parameter_id, **kwargs):
            return self.ends
        def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
            pass
        def trial_end(self, parameter_id, success, **kwargs):
            self.ends.append(sorted(kwargs))
"""


async def test_only_those_with_recall_are_told_what_becomes_of_the_set(host: Host) -> None:
    recalling = KEYWORDS + "        def recall(self, parameter_id, parameters):\n            pass\n"
    for code, more in ((KEYWORDS, [[], [], []]), (recalling, [[], ["untried"], ["again"]])):
        tuner = await host(code=code)
        tuner.ask(0, 1, 2)
        tuner.send(finished(1, 0, None))
        tuner.send(replace(finished(2, 1, None, success=False), untried=True))
        tuner.send(replace(finished(3, 2, None, success=False), again=True))
        tuner.ask(3)
        assert json.loads((await tuner.suggestions(4))[3]) == [
            sorted([*names, "trial_job_id"]) for names in more
        ]
        await tuner.child.close()
