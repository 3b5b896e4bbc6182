"""Interface of channels between a trial and its experiment."""

from __future__ import annotations

from typing import Any

from nni.typehint import ParameterRecord

__all__ = ["ParameterRecord", "TrialCommandChannel"]


class TrialCommandChannel:
    """Channel of a trial. ``NNI_TRIAL_COMMAND_CHANNEL=import://module.Class`` makes a trial use a class."""

    def receive_parameter(self) -> ParameterRecord | None:
        """Return the trial's next parameter record, or None if there is no further record."""
        raise NotImplementedError("receive_parameter is missing")

    def send_metric(
        self, type: str, parameter_id: int | None, trial_job_id: str, sequence: int, value: Any
    ) -> None:
        """Report a result. ``type``: PERIODICAL or FINAL. ``sequence``: 0 for a final result."""
        raise NotImplementedError("send_metric is missing")
