"""Channel that exchanges a trial's parameters and results with NNI 3's manager over HTTP."""

from __future__ import annotations

from typing import Any

from nni._trace import dump, load
from nni.runtime.command_channel.http import HttpChannel
from nni.runtime.trial_command_channel.base import ParameterRecord, TrialCommandChannel

__all__ = ["TrialCommandChannelV3"]


class TrialCommandChannelV3(TrialCommandChannel):
    """Channel to the manager at ``url``. NNI's manager passes this URL in NNI_TRIAL_COMMAND_CHANNEL."""

    def __init__(self, url: str) -> None:
        self._channel = HttpChannel(url)

    def receive_parameter(self) -> ParameterRecord | None:
        """Request a parameter set and wait for it. Return None if the channel is closed."""
        self._channel.send({"type": "request_parameter"})
        command = self._channel.receive()
        if command is None:
            return None
        record: ParameterRecord = load(command["parameter"])
        return record

    def send_metric(
        self, type: str, parameter_id: int | None, trial_job_id: str, sequence: int, value: Any
    ) -> None:
        """Send a result to the manager."""
        metric = {
            "parameter_id": parameter_id,
            "trial_job_id": trial_job_id,
            "type": type,
            "sequence": sequence,
            "value": dump(value),
        }
        self._channel.send({"type": "metric", "metric": dump(metric)})
