"""An advisor of the user's own as it is hosted: its commands, trials that it stops, and how it comes back."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from nnimgr.advisor import CommandType, send
from nnimgr.dispatcher import messages as m
from tests.dispatcher.conftest import Host, MakePast

# It tells what it hears in its next parameter set. It has two sets of its own, and one more for each trial
# that ends with a result above 1.
RECORDER = """
    import json
    from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
    from nni.runtime.protocol import send
    from nni.runtime.tuner_command_channel import CommandType

    class Mine(MsgDispatcherBase):
        def __init__(self, sets=2):
            super().__init__()
            self.left, self.owed, self.made, self.last, self.calls = sets, 0, 0, 0, []
        def make(self):
            while self.left and self.owed:
                self.left, self.owed = self.left - 1, self.owed - 1
                parameters = {"x": self.made, "calls": self.calls}
                record = {"parameter_id": "set-%d" % self.made, "parameters": parameters}
                self.calls, self.made = [], self.made + 1
                send(CommandType.NewTrialJob, json.dumps(record))
            if self.owed:
                self.send(CommandType.NoMoreTrialJobs, "")
        def handle_initialize(self, data):
            self.calls.append(["space", sorted(data)])
            self.send(CommandType.Initialized, "")
        def handle_update_search_space(self, data):
            self.calls.append(["new space", sorted(data)])
        def handle_request_trial_jobs(self, data):
            self.owed += data
            self.make()
        def handle_import_data(self, data):
            self.calls.append(["import", [each["value"] for each in data]])
        def handle_report_metric_data(self, data):
            value = json.loads(data["value"])
            names = "type", "parameter_id", "trial_job_id", "sequence"
            self.calls.append([data[name] for name in names] + [value])
            if value < 0:
                self.send(CommandType.KillTrialJob, json.dumps(data["trial_job_id"]))
            self.last = value
        def handle_trial_end(self, data):
            record = json.loads(data["hyper_params"])
            self.calls.append(["end", record["parameter_id"], data["trial_job_id"], data["event"]])
            if self.last > 1:
                self.left += 1
            self.make()
"""


def end(
    number: int, parameter_id: int, text: str | None, *, status: str = "SUCCEEDED", trial_id: str = "t0"
) -> m.TrialFinished:
    return m.TrialFinished(
        number=number,
        trial_id=trial_id,
        parameter_id=parameter_id,
        parameters="{}",
        text=text,
        success=status == "SUCCEEDED",
        status=status,
    )


async def calls_of(found: Any) -> Any:
    return json.loads((await found.suggestions(1))[0])["calls"]


async def test_it_gets_what_happens_and_waits_for_results(host: Host, make_past: MakePast) -> None:
    past = make_past()
    advisor = await host(code=RECORDER, database=str(past.path))
    assert (await advisor.expect(m.Ready)).wants_metrics
    advisor.ask(0)
    assert await calls_of(advisor) == [["space", ["x"]]]
    past.suggested(0, {})
    advisor.send(m.Metrics(items=(("t0", 1, 0, 0, "0.5"), ("t9", 1, 0, 0, "0.5")), numbers=(3, 4)))
    advisor.send(end(5, 0, "2"))
    advisor.ask(1, 2, 3)
    heard = [
        ["PERIODICAL", "set-0", "t0", 0, 0.5],
        ["FINAL", "set-0", "t0", 0, 2],
        ["end", "set-0", "t0", "SUCCEEDED"],
    ]
    assert await calls_of(advisor) == heard
    assert await calls_of(advisor) == []
    owing = await advisor.expect(m.Answered)
    while owing.missing != (3,):
        owing = await advisor.expect(m.Answered)
    assert (owing.exhausted, owing.why) == (False, "the advisor waits for the results of trials")
    advisor.send(end(6, 1, "3", trial_id="t1"))
    assert await calls_of(advisor) == [["FINAL", "set-1", "t1", 0, 3], ["end", "set-1", "t1", "SUCCEEDED"]]


async def test_it_has_no_more_when_nothing_runs_that_could_change_that(host: Host) -> None:
    advisor = await host(code=RECORDER, class_args={"sets": 1})
    advisor.ask(0, 1)
    await advisor.suggestions(1)
    assert not (await advisor.expect(m.Answered)).exhausted
    advisor.send(end(5, 0, "0.5"))
    assert await advisor.expect(m.Answered) == m.Answered(missing=(1,), exhausted=True, fed_to=5)


async def test_a_thread_of_its_own_creates_trials_at_any_time(host: Host, tmp_path: Path) -> None:
    code = """
        import json, threading
        from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
        from nni.runtime.protocol import CommandType, send

        class Mine(MsgDispatcherBase):
            def __init__(self, pipe):
                super().__init__()
                self.pipe, self.made = pipe, 0
            def make(self, count):
                with open(self.pipe) as pipe:
                    pipe.read()
                for _ in range(count):
                    send(CommandType.NewTrialJob, json.dumps({"parameter_id": self.made, "parameters": {}}))
                    self.made += 1
            def handle_request_trial_jobs(self, data):
                threading.Thread(target=self.make, args=(data,)).start()
            def handle_initialize(self, data):
                self.send(CommandType.Initialized, "")
            def handle_update_search_space(self, data): pass
            handle_import_data = handle_report_metric_data = handle_trial_end = handle_update_search_space
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    advisor = await host(code=code, class_args={"pipe": str(pipe)})
    advisor.ask(0, 1)
    owing = await advisor.expect(m.Answered)
    assert (owing.missing, owing.why) == ((0, 1), "the advisor has not created a trial yet")
    await asyncio.to_thread(pipe.write_text, "go")
    assert await advisor.suggestions(2) == ["{}", "{}"]


@pytest.mark.parametrize("dropped", [False, True])
async def test_it_stops_a_trial(host: Host, make_past: MakePast, dropped: bool) -> None:
    past = make_past()
    advisor = await host(code=RECORDER, database=str(past.path))
    advisor.ask(0)
    await advisor.suggestions(1)
    past.suggested(0, {})
    past.reported("t0", 1, -1)
    if dropped:  # the lines with the metrics did not fit into the pipe
        advisor.send(m.CatchUp(number=past.number))
    numbers = past.number - 1, past.number
    advisor.send(m.Metrics(items=(("t0", 1, 0, 0, "1"), ("t0", 1, 1, 1, "-1")), numbers=numbers))
    assert await advisor.expect(m.Judged) == m.Judged(trial_id="t0", attempt=1, position=1)
    advisor.send(end(past.number + 1, 0, None, status="EARLY_STOPPED"))
    advisor.ask(1)
    heard = await calls_of(advisor)
    assert [call[3:] for call in heard] == [[0, 1], [1, -1], ["EARLY_STOPPED"]]


async def test_a_new_process_gets_what_has_ended(host: Host, make_past: MakePast) -> None:
    past = make_past()
    past.suggested(0, {"x": 0.5})
    past.ended("t0", 0.75)
    past.suggested(1, {"x": 0.25})
    advisor = await host(code=RECORDER, past=past)
    ready = await advisor.expect(m.Ready)
    assert (
        ready.note is not None
        and "got the finished trial through import_data; it will get the results of the open" in ready.note
    )
    past.reported("t1", 0.5)
    items = (("t1", 1, 0, 0, "0.5"),)
    advisor.send(m.Metrics(items=items, numbers=(past.number,)))  # it has not sent this trial
    advisor.ask(2)
    assert await calls_of(advisor) == [["space", ["x"]], ["import", [0.75]]]
    advisor.send(end(past.ended("t1", 0.25), 1, "0.25", trial_id="t1"))
    advisor.ask(3)
    assert await calls_of(advisor) == [["import", [0.25]]]


async def test_a_set_that_breaks_a_rule_ends_before_it_begins(host: Host) -> None:
    advisor = await host(code=RECORDER, constraints=["x > 0"])
    advisor.ask(0)
    given = json.loads((await advisor.suggestions(1))[0])
    assert given == {"x": 1, "calls": [["end", "set-0", "", "SYS_CANCELED"]]}


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ('CommandType.NewTrialJob, "[1]"', "NewTrialJob needs an object with parameter_id and parameters"),
        (
            'CommandType.SendTrialJobParameter, "{}"',
            "cannot send SendTrialJobParameter here; it can send New",
        ),
        ('CommandType.Error, "out of ideas"', "RuntimeError: out of ideas"),
    ],
)
async def test_what_it_cannot_send(host: Host, sent: str, sentence: str) -> None:
    code = RECORDER.replace("self.owed += data", f"self.send({sent})")
    advisor = await host(code=code)
    advisor.ask(0)
    failed = await advisor.expect(m.Failed)
    assert sentence in failed.sentence and failed.fatal


def test_nothing_is_sent_outside_of_an_experiment() -> None:
    with pytest.raises(RuntimeError, match="NoMoreTrialJobs was sent, but an advisor can send only inside"):
        send(CommandType.NoMoreTrialJobs, "")
