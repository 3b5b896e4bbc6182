"""Types of parameters, search spaces and results, under NNI's names."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

__all__ = ["ParameterRecord", "Parameters", "SearchSpace", "TrialMetric", "TrialRecord"]

Parameters = dict[str, Any]
SearchSpace = dict[str, dict[str, Any]]
TrialMetric = float


class TrialRecord(TypedDict):
    """A trial's parameter set and result, as ``Tuner.import_data`` gets them."""

    parameter: Parameters
    value: TrialMetric


class ParameterRecord(TypedDict):
    """A parameter set as it is stored, and as a trial reads it."""

    parameter_id: int | None
    parameters: Parameters
    parameter_source: NotRequired[str]
    parameter_index: NotRequired[int]
    trial_job_id: NotRequired[str | None]
    version_info: NotRequired[dict[str, Any]]
    placement_constraint: NotRequired[dict[str, list[Any]]]
