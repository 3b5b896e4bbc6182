"""Requests for charts, and their JSON answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from nnimgr.api.models.base import First, JsonValue, Model, Request, few
from nnimgr.rules.facts import TrialStatus


class OptimizeMode(StrEnum):
    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


class StoppedBy(StrEnum):
    ASSESSOR = "assessor"
    SCHEDULER = "scheduler"
    DURATION = "duration"  # maxTrialDuration
    USER = "user"
    SYSTEM = "system"


Finite = Annotated[float, Field(allow_inf_nan=False)]


# ---- parallel coordinates


class WantedAxis(Request):
    name: str = Field(max_length=500, description="name of the column")
    log: bool | None = Field(None, description="logarithmic axis; default: as in the search space")


class Brush(Request):
    """User's selection on a column: a range of numbers, or some values. Trials without a value are not
    selected.
    """

    range: tuple[Finite | None, Finite | None] | None = Field(
        None, description="lower and upper bound, both included; null: no bound"
    )
    values: Annotated[list[JsonValue], First] | None = Field(None, max_length=10_000)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.range is None) == (self.values is None):
            raise ValueError("give either range or values")
        return self


class ParallelQuestion(Request):
    axes: Annotated[list[WantedAxis], First] = Field(min_length=1, max_length=100)
    brushes: Annotated[dict[str, Brush], few(100)] = Field(
        default={}, max_length=100, description="selections by column; a trial must match all of them"
    )
    top: float | None = Field(
        None, gt=0, le=1, description="keep only this share of the trials, the best ones"
    )
    filter: str = Field("", max_length=4000)
    bins: int = Field(128, ge=2, le=512, description="number of bins on an axis of numbers")
    metric: str = Field("value", max_length=500, description="column whose mean is computed per cell")
    mode: OptimizeMode | None = Field(
        None, description="direction of the metric; default: the tuner's optimize_mode"
    )
    lines: int = Field(5000, ge=0, le=100_000, description="largest number of selected trials to list")
    background: bool = Field(True, description="also return the histograms of all trials, without brushes")


# ---- importance


class ParameterImportance(Model):
    name: str = Field(description="name of the parameter; in a nested choice outer/inner")
    importance: float = Field(description="share of the importance; all shares add up to 1")
    error: float = Field(description="standard deviation of the share over random draws of the trials")


class Importance(Model):
    """Importance of each parameter: its share in the difference between the best trials and all trials."""

    revision: int
    source: str = Field(description="the method")
    trials: int = Field(description="number of trials with a result")
    best: int = Field(description="number of trials that count as the best")
    sentence: str | None = Field(description="reason if the importance cannot be computed")
    parameters: list[ParameterImportance] = Field(description="sorted, the most important first")


# ---- history


class Improvement(Model):
    sequence: int
    trial_id: str
    ended_s: float | None = Field(description="seconds since the experiment's creation")
    value: float


class History(Model):
    """Trials that have improved the best result, in the order of their sequence numbers."""

    revision: int
    minimise: bool
    results: int
    improvements: int = Field(description="number of all improvements; `points` may have fewer")
    last_sequence: int | None = Field(description="sequence of the newest trial, where the line ends")
    points: list[Improvement] = Field(description="trials that were better than all earlier trials")


# ---- several objectives


class ParetoObjective(Model):
    name: str
    mode: OptimizeMode
    column: str = Field(
        description="column that has this objective for all trials; `value`: the main objective"
    )
    min: float | None = Field(description="smallest value of all trials with a result; null: there are none")
    max: float | None


class ParetoTrial(Model):
    sequence: int
    trial_id: str
    ended_s: float | None = Field(description="seconds since the experiment's creation")
    values: dict[str, float] = Field(description="by objective")


class ParetoSet(Model):
    """Pareto set: trials for which no other trial is better in one objective and not worse in the others."""

    revision: int
    objectives: list[ParetoObjective] = Field(
        description="objectives, the main one first; without objectives: one entry with the name `default`"
    )
    results: int = Field(description="number of trials that succeeded with a number for each objective")
    total: int = Field(description="number of trials in the set; equal trials are all in it")
    trials: list[ParetoTrial] = Field(description="trials of the set, the best in the main objective first")


# ---- early stops


class StoppedTrial(Model):
    sequence: int
    trial_id: str
    status: TrialStatus
    by: StoppedBy
    step: int | None = Field(description="step of the last intermediate metric; null: there is none")
    value: float | None = Field(description="value of the last intermediate metric")
    ended_s: float | None = Field(description="seconds since the experiment's creation")
    reason: str = Field(description="one sentence")


class StoppedCounts(Model):
    assessor: int
    scheduler: int
    duration: int
    user: int
    system: int


class StepCounts(Model):
    step: int
    reached: int = Field(description="number of trials that have reported this step")
    stopped: int = Field(description="number of these trials that were stopped at this step")


class StoppedTrials(Model):
    """Trials that were stopped. The assessor, the scheduler or maxTrialDuration has stopped trials with the
    status EARLY_STOPPED.
    """

    revision: int
    total: int = Field(description="number of matching trials, on all pages")
    assessor: str | None = Field(description="the assessor's name in the configuration")
    counts: StoppedCounts = Field(description="number of stopped trials for each value of `by`")
    steps: list[StepCounts] = Field(description="steps at which a trial was stopped, ascending")
    trials: list[StoppedTrial] = Field(description="sorted, the latest end first")
