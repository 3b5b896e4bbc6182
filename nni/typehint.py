"""Types for parameters, search spaces and results, named as in NNI."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

__all__ = ["Literal", "ParameterRecord", "Parameters", "SearchSpace", "TrialMetric", "TrialRecord"]

Parameters = dict[str, Any]
SearchSpace = dict[str, dict[str, Any]]
TrialMetric = float


class TrialRecord(TypedDict):
    """A trial's parameter set and result, as the method ``import_data`` of a tuner receives them."""

    parameter: Parameters
    value: TrialMetric


class ParameterRecord(TypedDict):
    """A parameter set with its id, as it is stored and as a trial receives it."""

    parameter_id: int | None
    parameters: Parameters
    parameter_source: NotRequired[str]
    parameter_index: NotRequired[int]
    trial_job_id: NotRequired[str | None]
    version_info: NotRequired[dict[str, Any]]
    placement_constraint: NotRequired[dict[str, list[Any]]]
