"""Channel for a trial that runs without an experiment."""

from __future__ import annotations

from typing import Any

from nni import _trial
from nni.runtime.trial_command_channel.base import ParameterRecord, TrialCommandChannel

__all__ = ["StandaloneTrialCommandChannel"]


class StandaloneTrialCommandChannel(TrialCommandChannel):
    """Channel for a trial without an experiment. It returns no parameters, and prints results."""

    def receive_parameter(self) -> ParameterRecord:
        """Warn that there is no experiment, and return an empty parameter set."""
        _trial.warn_standalone()
        return {"parameter_id": None, "parameters": {}}

    def send_metric(
        self, type: str, parameter_id: int | None, trial_job_id: str, sequence: int, value: Any
    ) -> None:
        """Print a result."""
        _trial.say_result(type, sequence, value)
