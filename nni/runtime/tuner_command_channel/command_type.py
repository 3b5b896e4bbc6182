"""Commands from the manager to a tuner, as objects."""

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
    """Base class of the commands. ``command_type`` is the command's name and code."""

    command_type: ClassVar[CommandType]


@dataclass
class Initialize(TunerIncomingCommand):
    """The first command: the search space."""

    command_type: ClassVar[CommandType] = CommandType.Initialize
    search_space: dict[str, Any]


@dataclass
class RequestTrialJobs(TunerIncomingCommand):
    """Request of ``count`` further trials."""

    command_type: ClassVar[CommandType] = CommandType.RequestTrialJobs
    count: int


@dataclass
class UpdateSearchSpace(TunerIncomingCommand):
    """A search space that replaces the previous search space."""

    command_type: ClassVar[CommandType] = CommandType.UpdateSearchSpace
    search_space: dict[str, Any]


@dataclass
class ReportMetricData(TunerIncomingCommand):
    """Result of a trial.

    ``type``: FINAL, PERIODICAL for an intermediate result, or REQUEST_PARAMETER of a multi-phase trial.
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
    """End of a trial. ``event`` is the trial's last status."""

    command_type: ClassVar[CommandType] = CommandType.TrialEnd
    trial_job_id: str
    parameter_ids: list[int]
    event: str


@dataclass
class Terminate(TunerIncomingCommand):
    """End of the experiment."""

    command_type: ClassVar[CommandType] = CommandType.Terminate
