"""Interface of the channel over which a trial gets parameters and sends results."""

from __future__ import annotations

from typing import Any

from nni.typehint import ParameterRecord

__all__ = ["ParameterRecord", "TrialCommandChannel"]


class TrialCommandChannel:
    """Channel over which a trial gets parameters and sends results.

    To use a class of your own, set the variable ``NNI_TRIAL_COMMAND_CHANNEL=import://module.Class``.
    """

    def receive_parameter(self) -> ParameterRecord | None:
        """Return the trial's next parameter set with its id, or None if there is no further set."""
        raise NotImplementedError("receive_parameter is missing")

    def send_metric(
        self, type: str, parameter_id: int | None, trial_job_id: str, sequence: int, value: Any
    ) -> None:
        """Report a result. ``type``: PERIODICAL (intermediate) or FINAL.

        ``sequence``: its number, 0 for a final result.
        """
        raise NotImplementedError("send_metric is missing")
