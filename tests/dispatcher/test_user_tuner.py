"""Promises to user code in a tuner's process: results while it waits, its files, and NNI's names."""

from __future__ import annotations

import json
from pathlib import Path

from nnimgr.dispatcher import messages as m
from nnimgr.testing.record import EXPERIMENT
from tests.dispatcher.conftest import Host
from tests.dispatcher.test_tuner import finished

PATIENT = """
    import threading
    import nni.tuner

    class Mine(nni.tuner.Tuner):
        def __init__(self):
            self.first_has_reported = threading.Event()
            self.ended = []
        def update_search_space(self, search_space): pass
        def generate_parameters(self, parameter_id, **kwargs):
            if parameter_id:
                self.first_has_reported.wait()
            return {"id": parameter_id, "ended": self.ended}
        def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
            if value == 7:
                self.first_has_reported.set()
        def trial_end(self, parameter_id, success, **kwargs):
            self.ended.append(parameter_id)
"""


async def test_a_tuner_may_wait_for_results_before_it_gives_a_set(host: Host) -> None:
    tuner = await host(code=PATIENT)
    tuner.ask(0, 1)
    assert await tuner.suggestions(1) == ['{"id": 0, "ended": []}']
    tuner.ask(2, fed_to=4)
    tuner.send(finished(5, None, "7"))  # not passed to a tuner that does not accept customised trials
    tuner.send(finished(6, 0, "7"))
    assert (await tuner.expect(m.Busy)).call == "generate_parameters"
    first = await tuner.expect(m.Suggestion)
    assert (first.parameter_id, first.fed_to) == (1, 6)
    second = await tuner.expect(m.Suggestion)
    assert (second.parameter_id, second.fed_to) == (2, 6)
    assert json.loads(second.parameters)["ended"] == [0]
    tuner.send(finished(7, 1, "1"))
    tuner.ask(3, fed_to=7)
    assert json.loads((await tuner.suggestions(1))[0])["ended"] == [0, 1]


async def test_a_tuner_that_waits_can_still_be_told_of_the_second_result(host: Host) -> None:
    tuner = await host(code=PATIENT.replace("if parameter_id:", "if parameter_id > 1:"))
    tuner.ask(0, 1, 2)
    await tuner.suggestions(2)
    await tuner.expect(m.Busy)
    tuner.send(finished(5, 0, "1"))
    tuner.send(finished(6, 1, "7"))
    assert (await tuner.expect(m.Suggestion)).parameter_id == 2


async def test_one_that_ends_the_process_while_it_waits_is_seen(host: Host) -> None:
    tuner = await host(code=PATIENT.replace("if value == 7", "import sys; sys.exit(3)\n            if 1"))
    tuner.ask(0, 1)
    tuner.send(finished(6, 0, "7"))
    assert "exited with status 1" in await tuner.exited()
    assert [failed.fatal for failed in tuner.of_kind(m.Failed)] == [True]


async def test_a_tuner_that_computes_is_left_alone(host: Host) -> None:
    code = """
        import time
        import nni.tuner

        class Mine(nni.tuner.Tuner):
            told = 0
            def update_search_space(self, search_space): pass
            def generate_parameters(self, parameter_id, **kwargs):
                until = time.thread_time() + (1.2 if parameter_id else 0)
                while time.thread_time() < until:
                    sum(range(1000))
                return self.told
            def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
                self.told += 1
    """
    tuner = await host(code=code)
    tuner.ask(0, 1)
    await tuner.suggestions(1)
    tuner.send(finished(6, 0, "7"))
    assert await tuner.suggestions(1) == ["0"]
    tuner.ask(2, fed_to=6)
    assert await tuner.suggestions(1) == ["1"]


async def test_what_nni_promises_of_the_process(host: Host, tmp_path: Path) -> None:
    code = """
        import logging, os, sys
        import nni.tuner
        from nni.utils import OptimizeMode, extract_scalar_reward

        here = os.path.dirname(__file__)
        result = open(os.path.join(here, "result.txt"), "w")
        logging.getLogger("mine").info("imported")

        class Mine(nni.tuner.Tuner):
            def __init__(self, optimize_mode):
                self.mode = OptimizeMode(optimize_mode)
            def update_search_space(self, search_space): pass
            def generate_parameters(self, parameter_id, **kwargs):
                if parameter_id == 1:
                    raise ValueError("enough")
                names = ("NNI_LOG_DIRECTORY", "NNI_MODE", "NNI_EXP_ID", "SDK_PROCESS")
                found = {name: os.environ[name] for name in names}
                return {"cwd": os.getcwd(), "here": sys.path[-1], **found}
            def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
                result.write("%d %g\\n" % (parameter_id, extract_scalar_reward(value)))
                result.flush()
            def _on_error(self):
                result.write("ERROR\\n")
                result.close()
    """
    tuner = await host(code=code, class_args={"optimize_mode": "maximize"})
    tuner.ask(0)
    assert json.loads((await tuner.suggestions(1))[0]) == {
        "cwd": str(tmp_path),
        "here": str(tmp_path),
        "NNI_LOG_DIRECTORY": str(tmp_path),
        "NNI_MODE": "start",
        "NNI_EXP_ID": EXPERIMENT,
        "SDK_PROCESS": "dispatcher",
    }
    tuner.send(finished(5, 0, '{"default": 0.5}'))
    tuner.ask(1, fed_to=5)
    assert "ValueError: enough" in (await tuner.expect(m.Failed)).sentence
    await tuner.exited()
    assert (tmp_path / "result.txt").read_text() == "0 0.5\nERROR\n"
    assert "INFO (mine/MainThread) imported" in tuner.log.read_text()
