"""Classes for the commands that NNI's manager sends to a tuner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from nnimgr.advisor import CommandType

__all__ = [
    "CommandType",
    "Initialize",
    "ReportMetricData",
    "RequestTrialJobs",
    "Terminate",
    "TrialEnd",
    "TunerIncomingCommand",
    "UpdateSearchSpace",
]


class TunerIncomingCommand:
    """Base class of the commands from the manager. ``command_type`` is the command's name and code."""

    command_type: ClassVar[CommandType]


@dataclass
class Initialize(TunerIncomingCommand):
    """First command to a tuner. It contains the search space."""

    command_type: ClassVar[CommandType] = CommandType.Initialize
    search_space: dict[str, Any]


@dataclass
class RequestTrialJobs(TunerIncomingCommand):
    """Command that requests parameter sets for ``count`` more trials."""

    command_type: ClassVar[CommandType] = CommandType.RequestTrialJobs
    count: int


@dataclass
class UpdateSearchSpace(TunerIncomingCommand):
    """Command that replaces the search space."""

    command_type: ClassVar[CommandType] = CommandType.UpdateSearchSpace
    search_space: dict[str, Any]


@dataclass
class ReportMetricData(TunerIncomingCommand):
    """Command that reports a trial's result.

    ``type``: FINAL, PERIODICAL for an intermediate result, or REQUEST_PARAMETER if a multi-phase trial
    requests its next parameter set.
    """

    command_type: ClassVar[CommandType] = CommandType.ReportMetricData
    parameter_id: int
    type: str
    sequence: int
    value: Any = None
    trial_job_id: str | None = None
    parameter_index: int | None = None


@dataclass
class TrialEnd(TunerIncomingCommand):
    """Command that reports the end of a trial. ``event`` is the trial's last status."""

    command_type: ClassVar[CommandType] = CommandType.TrialEnd
    trial_job_id: str
    parameter_ids: list[int]
    event: str


@dataclass
class Terminate(TunerIncomingCommand):
    """Command that ends the tuner, because the experiment ends."""

    command_type: ClassVar[CommandType] = CommandType.Terminate
