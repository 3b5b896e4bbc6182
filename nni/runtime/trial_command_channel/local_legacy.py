"""Channel of a trial over the files in its directory, which is how trials of nnimgr work."""

from __future__ import annotations

from typing import Any, cast

from nni import _trial
from nni.runtime.trial_command_channel.base import ParameterRecord, TrialCommandChannel

__all__ = ["LocalLegacyTrialCommandChannel"]


class LocalLegacyTrialCommandChannel(TrialCommandChannel):
    """Channel over ``parameter.cfg`` and ``.nni/metrics`` in ``NNI_SYS_DIR``."""

    def __init__(self) -> None:
        self._trial = _trial.Trial()

    def receive_parameter(self) -> ParameterRecord | None:
        """Wait for the next parameter record, and return it.

        Return None for a second record, unless the trial is multi-phase.
        """
        return cast("ParameterRecord | None", self._trial.receive())

    def send_metric(
        self, type: str, parameter_id: int | None, trial_job_id: str, sequence: int, value: Any
    ) -> None:
        """Append a result to the file of metrics. Raise OSError."""
        self._trial.send_metric(type, parameter_id, trial_job_id, sequence, value)
