"""NNI 3's channel between manager and tuner, which is a WebSocket."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from threading import Event
from typing import Any

from nni._trace import dump, load
from nni.runtime.command_channel.websocket import WsChannelClient
from nni.runtime.tuner_command_channel.command_type import (
    CommandType,
    Initialize,
    ReportMetricData,
    RequestTrialJobs,
    Terminate,
    TrialEnd,
    TunerIncomingCommand,
    UpdateSearchSpace,
)

__all__ = ["TunerCommandChannel"]

TunerCommandCallback = Callable[[Any], None]


class TunerCommandChannel:
    """Channel from a tuner to NNI's manager, or to a server in a test.

    ``url``: such as "ws://localhost:8080/tuner". An experiment of nnimgr does not use it: nnimgr calls the
    methods of tuners and advisors directly.
    """

    def __init__(self, url: str) -> None:
        self._channel = WsChannelClient(url)
        self._callbacks: dict[CommandType, list[TunerCommandCallback]] = defaultdict(list)

    def connect(self) -> None:
        """Connect to the manager. Raise OSError if this fails."""
        self._channel.connect()

    def disconnect(self) -> None:
        """Close the connection."""
        self._channel.disconnect()

    def listen(self, stop_event: Event) -> None:
        """Call the callbacks for each command that arrives, until ``stop_event`` is set.

        The command Terminate sets it.
        """
        while not stop_event.is_set():
            command = self.receive()
            for callback in self._callbacks[command.command_type]:
                callback(command)
            if command.command_type is CommandType.Terminate:
                stop_event.set()

    # ---- commands to the manager --------------------------------------------------------------------------

    def send_initialized(self) -> None:
        """Report to the manager that the tuner has received its search space."""
        self._send(CommandType.Initialized, "")

    def send_trial(
        self,
        parameter_id: int,
        parameters: Any,
        parameter_source: str = "algorithm",
        parameter_index: int = 0,
        placement_constraint: dict[str, Any] | None = None,
    ) -> None:
        """Send the manager a parameter set for a new trial."""
        record = {
            "parameter_id": parameter_id,
            "parameters": parameters,
            "parameter_source": parameter_source,
            "parameter_index": parameter_index,
        }
        if placement_constraint is not None:
            record["placement_constraint"] = placement_constraint
        self._send(CommandType.NewTrialJob, dump(record))

    def send_no_more_trial_jobs(self) -> None:
        """Report to the manager that the tuner has no more parameter sets."""
        self._send(CommandType.NoMoreTrialJobs, "")

    # ---- commands from the manager ------------------------------------------------------------------------

    def receive(self) -> TunerIncomingCommand:
        """Wait for the next command and return it. Return Terminate if the connection is closed.

        Raise TypeError if the command's data has the wrong type, and ValueError for the commands ImportData,
        AddCustomizedTrialJob and Ping, which are not supported.
        """
        kind, text = self._receive()
        data = load(text) if text else None
        match kind, data:
            case ((None | CommandType.Terminate), _):
                return Terminate()
            case CommandType.Initialize, dict():
                return Initialize(data)
            case CommandType.UpdateSearchSpace, dict():
                return UpdateSearchSpace(data)
            case CommandType.RequestTrialJobs, int():
                return RequestTrialJobs(data)
            case CommandType.ReportMetricData, dict():
                if "value" in data:
                    data["value"] = load(data["value"])
                return ReportMetricData(**data)
            case CommandType.TrialEnd, dict():
                parameter_id = load(data["hyper_params"])["parameter_id"]
                return TrialEnd(data["trial_job_id"], [parameter_id], data["event"])
            case ((CommandType.ImportData | CommandType.AddCustomizedTrialJob | CommandType.Ping), _):
                raise ValueError(f"Unknown command type: {kind}")
        raise TypeError(f"{kind} cannot have data of type {type(data).__name__}: {text!r:.100}")

    def on_initialize(self, callback: TunerCommandCallback) -> None:
        """Register ``callback``, which ``listen`` calls for each command Initialize."""
        self._callbacks[CommandType.Initialize].append(callback)

    def on_request_trial_jobs(self, callback: TunerCommandCallback) -> None:
        """Register ``callback``, which ``listen`` calls for each command RequestTrialJobs."""
        self._callbacks[CommandType.RequestTrialJobs].append(callback)

    def on_update_search_space(self, callback: TunerCommandCallback) -> None:
        """Register ``callback``, which ``listen`` calls for each command UpdateSearchSpace."""
        self._callbacks[CommandType.UpdateSearchSpace].append(callback)

    def on_report_metric_data(self, callback: TunerCommandCallback) -> None:
        """Register ``callback``, which ``listen`` calls for each command ReportMetricData."""
        self._callbacks[CommandType.ReportMetricData].append(callback)

    def on_trial_end(self, callback: TunerCommandCallback) -> None:
        """Register ``callback``, which ``listen`` calls for each command TrialEnd."""
        self._callbacks[CommandType.TrialEnd].append(callback)

    def on_terminate(self, callback: TunerCommandCallback) -> None:
        """Register ``callback``, which ``listen`` calls for the command Terminate."""
        self._callbacks[CommandType.Terminate].append(callback)

    def _send(self, command_type: CommandType, data: str) -> None:
        self._channel.send({"type": command_type.value, "content": data})

    def _receive(self) -> tuple[CommandType | None, str | None]:
        command = self._channel.receive()
        if command is None:
            return None, None
        return CommandType(command["type"]), command.get("content", "")
