"""Channel that exchanges a trial's parameters and results as files in its directory. Trials of nnimgr
use it.
"""

from __future__ import annotations

from typing import Any, cast

from nni import _trial
from nni.runtime.trial_command_channel.base import ParameterRecord, TrialCommandChannel

__all__ = ["LocalLegacyTrialCommandChannel"]


class LocalLegacyTrialCommandChannel(TrialCommandChannel):
    """Channel that uses the files ``parameter.cfg`` and ``.nni/metrics`` in the directory ``NNI_SYS_DIR``."""

    def __init__(self) -> None:
        self._trial = _trial.Trial()

    def receive_parameter(self) -> ParameterRecord | None:
        """Wait for the next parameter set, and return it with its id.

        If this is not the first call, return None at once, unless the trial is multi-phase.
        """
        return cast("ParameterRecord | None", self._trial.receive())

    def send_metric(
        self, type: str, parameter_id: int | None, trial_job_id: str, sequence: int, value: Any
    ) -> None:
        """Append a result to the metrics file. Raise OSError if this fails."""
        self._trial.send_metric(type, parameter_id, trial_job_id, sequence, value)
