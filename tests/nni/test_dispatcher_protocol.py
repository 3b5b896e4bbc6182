"""NNI's protocol between manager and tuner: frames in files, and the dispatcher that reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from threading import Event
from typing import Any

import pytest

from nni.assessor import Assessor, AssessResult
from nni.runtime import msg_dispatcher, protocol
from nni.runtime.msg_dispatcher import MsgDispatcher, _create_parameter_id, _pack_parameter
from nni.runtime.msg_dispatcher_base import MsgDispatcherBase
from nni.runtime.tuner_command_channel import CommandType, TunerCommandChannel, command_type, legacy
from nni.tuner import Tuner
from nnimgr.algorithm import NoMoreTrialError

URL = "ws://_unittest_placeholder_"


class Counter(Tuner):
    """Tuner that gives 0, 1, ... up to a limit, and notes its calls."""

    def __init__(self, limit: int = 100) -> None:
        self.calls: list[Any] = []
        self._limit = limit

    def update_search_space(self, search_space: Any) -> None:
        self.calls.append(("space", search_space))

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        if parameter_id >= self._limit:
            raise NoMoreTrialError
        return {"x": parameter_id}

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        self.calls.append(("result", parameter_id, parameters, value, kwargs["customized"]))

    def trial_end(self, parameter_id: int, success: bool, **kwargs: Any) -> None:
        self.calls.append(("end", parameter_id, success))

    def import_data(self, data: Any) -> None:
        self.calls.append(("import", data))


class Even(Assessor):
    """Assessor that stops a trial whose results have an odd sum."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> AssessResult:
        self.calls.append((trial_job_id, list(trial_history)))
        return AssessResult.Good if sum(trial_history) % 2 == 0 else AssessResult.Bad

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        self.calls.append((trial_job_id, success))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reset what the process keeps between dispatchers."""
    monkeypatch.setattr(msg_dispatcher, "_next_parameter_id", 0)
    for name in ("_trial_params", "_trial_history", "_ended_trials"):
        monkeypatch.setattr(msg_dispatcher, name, type(getattr(msg_dispatcher, name))())
    yield
    legacy._set_in_file(None)
    legacy._set_out_file(None)


def frame(command: CommandType, data: Any) -> bytes:
    text = json.dumps(data).encode()
    return b"%b%014d%b" % (command.value.encode(), len(text), text)


def run(dispatcher: MsgDispatcherBase, *commands: tuple[CommandType, Any]) -> list[tuple[CommandType, Any]]:
    """Run a dispatcher with these commands. Return the commands that it sends."""
    sent = BytesIO()
    legacy._set_in_file(BytesIO(b"".join(frame(*command) for command in commands)))
    legacy._set_out_file(sent)
    dispatcher._channel = legacy.LegacyCommandChannel()
    dispatcher.run()
    legacy._set_in_file(BytesIO(sent.getvalue()))
    found = []
    while (received := legacy.receive())[0] is not None:
        command, text = received
        assert command is not None and text is not None
        found.append((command, json.loads(text) if text else None))
    return found


def metric(parameter_id: Any, kind: str, value: Any, trial: str = "a", sequence: int = 0) -> Any:
    data = {"parameter_id": parameter_id, "trial_job_id": trial, "type": kind, "sequence": sequence}
    return CommandType.ReportMetricData, data | {"value": json.dumps(value)}


def end(parameter_id: Any, event: str, trial: str = "a") -> Any:
    record = json.dumps({"parameter_id": parameter_id})
    return CommandType.TrialEnd, {"trial_job_id": trial, "event": event, "hyper_params": record}


def test_frames() -> None:
    out = BytesIO()
    protocol._set_out_file(out)
    protocol.send(CommandType.NewTrialJob, "é")
    assert out.getvalue() == "TR00000000000002é".encode() and protocol._get_out_file() is out
    protocol._set_in_file(BytesIO(b"IN00000000000005helloGE000"))
    assert protocol.receive() == (CommandType.Initialize, "hello")
    assert protocol.receive() == (None, None)


def test_without_files_it_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"no channel to a manager.*_set_out_file"):
        protocol.send(CommandType.NewTrialJob, "")


def test_a_tuner() -> None:
    tuner = Counter(limit=3)
    dispatcher = MsgDispatcher(URL, tuner)
    sent = run(
        dispatcher,
        (CommandType.Initialize, {"x": 1}),
        (CommandType.RequestTrialJobs, 2),
        metric(0, "PERIODICAL", 1),
        metric(1, "FINAL", 0.5),
        metric(7, "FINAL", 0.5),
        metric(None, "FINAL", 0.5),
        end(1, "SUCCEEDED"),
        end(0, "FAILED"),
        (CommandType.ImportData, [{"parameter": {"x": 9}, "value": "3"}, {"parameter": {}, "value": 4}]),
        (CommandType.UpdateSearchSpace, {"y": 1}),
        (CommandType.RequestTrialJobs, 2),
        (CommandType.Ping, None),
        (CommandType.Terminate, None),
        (CommandType.RequestTrialJobs, 2),
    )
    sets = [(kind, data["parameters"]) for kind, data in sent[1:]]
    assert sent[0] == (CommandType.Initialized, None)
    assert sets == [
        *((CommandType.NewTrialJob, {"x": n}) for n in range(3)),
        (CommandType.NoMoreTrialJobs, ""),
    ]
    assert sent[1][1]["parameter_source"] == "algorithm" and sent[1][1]["parameter_index"] == 0
    assert tuner.calls == [
        ("space", {"x": 1}),
        ("result", 1, {"x": 1}, 0.5, False),
        ("end", 1, True),
        ("end", 0, False),
        ("import", [{"parameter": {"x": 9}, "value": 3}, {"parameter": {}, "value": 4}]),
        ("space", {"y": 1}),
    ]
    assert dispatcher.worker_exceptions == []


def test_an_assessor_stops_a_trial_once_its_results_are_without_a_gap() -> None:
    assessor = Even()
    sent = run(
        MsgDispatcher(URL, None, assessor),
        metric(0, "PERIODICAL", 2, "a", 0),
        metric(0, "PERIODICAL", 9, "b", 2),
        metric(0, "PERIODICAL", 3, "a", 1),
        end(0, "EARLY_STOPPED", "a"),
        end(0, "SUCCEEDED", "c"),
        metric(0, "PERIODICAL", 3, "a", 2),
    )
    assert sent == [(CommandType.KillTrialJob, "a")]
    assert assessor.calls == [("a", [2]), ("a", [2, 3]), ("a", False)]


def test_a_command_that_no_dispatcher_gets_ends_it() -> None:
    dispatcher = MsgDispatcher(Counter())  # the form of NNI 2
    assert run(dispatcher, (CommandType.KillTrialJob, None), (CommandType.RequestTrialJobs, 1)) == []
    (error,) = dispatcher.worker_exceptions
    assert type(error) is AssertionError
    assert error.args == ("Unsupported command: CommandType.KillTrialJob",)


def test_sets_of_an_earlier_run_are_imported() -> None:
    tuner = Counter()
    records = [json.dumps({"parameter_id": 4, "parameters": {"x": 4}}), {"parameter_id": 2, "parameters": 2}]
    sent = run(
        MsgDispatcher(URL, tuner),
        (CommandType.AddCustomizedTrialJob, records),
        metric(4, "FINAL", 0.1),
        metric(4, "PERIODICAL", 0.1),
        end(4, "SUCCEEDED"),
        (CommandType.RequestTrialJobs, 1),
    )
    assert tuner.calls == [("import", [{"parameter": {"x": 4}, "value": 0.1}])]
    assert sent[0][1]["parameter_id"] == 5


def test_records_of_parameter_sets() -> None:
    assert (_create_parameter_id(), _create_parameter_id()) == (0, 1)
    assert json.loads(_pack_parameter(3, {"x": 1}, customized=True, trial_job_id="t", parameter_index=2)) == {
        "parameter_id": 3,
        "parameter_source": "customized",
        "parameters": {"x": 1},
        "trial_job_id": "t",
        "parameter_index": 2,
    }


def test_an_advisor_outside_an_experiment_needs_a_channel() -> None:
    advisor = MsgDispatcherBase()
    with pytest.raises(RuntimeError, match="can send only inside an experiment, or with the URL"):
        advisor.send(CommandType.Initialized, "")


class Scripted:
    """Channel of a test: gives these commands and collects the others."""

    def __init__(self, *incoming: dict[str, Any]) -> None:
        self.incoming, self.sent = list(incoming), list[Any]()

    def send(self, command: Any) -> None:
        self.sent.append(command)

    def receive(self) -> Any:
        return self.incoming.pop(0) if self.incoming else None


def test_commands_as_objects() -> None:
    channel = TunerCommandChannel(URL)
    value = metric(1, "FINAL", 0.5)[1]
    ended = end(1, "FAILED")[1]
    script = Scripted(
        {"type": "IN", "content": '{"x": 1}'},
        {"type": "GE", "content": "2"},
        {"type": "SS", "content": '{"y": 1}'},
        {"type": "ME", "content": json.dumps(value)},
        {"type": "EN", "content": json.dumps(ended)},
        {"type": "TE"},
    )
    channel._channel = script  # type: ignore[assignment]
    heard: list[Any] = []
    names = ["initialize", "request_trial_jobs", "update_search_space", "report_metric_data", "trial_end"]
    for name in [*names, "terminate"]:
        getattr(channel, f"on_{name}")(heard.append)
    channel.listen(Event())
    assert heard == [
        command_type.Initialize({"x": 1}),
        command_type.RequestTrialJobs(2),
        command_type.UpdateSearchSpace({"y": 1}),
        command_type.ReportMetricData(1, "FINAL", 0, 0.5, "a"),
        command_type.TrialEnd("a", [1], "FAILED"),
        command_type.Terminate(),
    ]
    channel.send_initialized()
    channel.send_trial(3, {"x": 1})
    channel.send_no_more_trial_jobs()
    assert [each["type"] for each in script.sent] == ["ID", "TR", "NO"]
    assert json.loads(script.sent[1]["content"])["parameters"] == {"x": 1}
    script.incoming = [{"type": "GE", "content": '"two"'}, {"type": "PI"}]
    with pytest.raises(TypeError, match="RequestTrialJobs cannot have data of type str"):
        channel.receive()
    with pytest.raises(ValueError, match="Unknown command type"):
        channel.receive()
