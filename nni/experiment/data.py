"""Classes for the trials, results and metrics that the methods of ``Experiment`` return, named as in NNI."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["TrialHyperParameters", "TrialJob", "TrialMetricData", "TrialResult"]


@dataclass(init=False)
class TrialResult:
    """Final result of a trial. ``value``: the reported number, or a dict with the number under "default"."""

    parameter: dict[str, Any]
    value: Any
    trialJobId: str

    def __init__(self, parameter: dict[str, Any], value: str, trialJobId: str) -> None:
        """Create the result of a trial. ``value`` is JSON text, as the REST API sends it."""
        self.parameter = parameter
        self.value = json.loads(value)
        self.trialJobId = trialJobId


@dataclass(init=False)
class TrialMetricData:
    """Metric of a trial.

    ``timestamp``: milliseconds since 1970. ``type``: "PERIODICAL" for an intermediate result, "FINAL" for the
    final one. ``data``: the reported value.
    """

    timestamp: int
    trialJobId: str
    parameterId: int | str | None
    type: str
    sequence: int
    data: Any

    def __init__(
        self,
        timestamp: int,
        trialJobId: str,
        parameterId: int | str | None,
        type: str,
        sequence: int,
        data: str,
    ) -> None:
        """Create a metric. ``data`` is JSON text inside a JSON string, as the REST API sends it."""
        self.timestamp = timestamp
        self.trialJobId = trialJobId
        self.parameterId = parameterId
        self.type = type
        self.sequence = sequence
        self.data = json.loads(json.loads(data))


@dataclass
class TrialHyperParameters:
    """Parameter set of a trial, with its id."""

    parameter_id: int | None
    parameter_source: str
    parameters: Any
    parameter_index: int
    placement_constraint: Any = None
    version_info: Any = None


@dataclass(init=False)
class TrialJob:
    """One trial with its status, parameters and results.

    Times are in milliseconds since 1970; ``endTime`` is -1 until the trial ends.
    """

    trialJobId: str
    status: str
    hyperParameters: list[TrialHyperParameters]
    logPath: str
    startTime: int
    endTime: int
    finalMetricData: list[TrialMetricData]
    stderrPath: str
    sequenceId: int
    message: str

    def __init__(
        self,
        trialJobId: str,
        status: str,
        logPath: str = "",
        startTime: int = -1,
        sequenceId: int = -1,
        endTime: int = -1,
        stderrPath: str = "",
        hyperParameters: list[str] | tuple[str, ...] = (),
        finalMetricData: list[dict[str, Any]] | tuple[dict[str, Any], ...] = (),
        message: str = "--",
        **others: Any,
    ) -> None:
        """Create a trial from the fields that NNI's REST API sends. Unknown fields are ignored."""
        self.trialJobId = trialJobId
        self.status = status
        self.hyperParameters = [TrialHyperParameters(**json.loads(text)) for text in hyperParameters]
        self.logPath = logPath
        self.startTime = startTime
        self.endTime = endTime
        self.finalMetricData = [TrialMetricData(**metric) for metric in finalMetricData]
        self.stderrPath = stderrPath
        self.sequenceId = sequenceId
        self.message = message
