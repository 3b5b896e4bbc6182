"""Requests for charts, and the answers to them that are JSON."""

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
    DURATION = "duration"  # maxTrialDuration
    USER = "user"
    SYSTEM = "system"


Finite = Annotated[float, Field(allow_inf_nan=False)]


# ---- parallel coordinates


class WantedAxis(Request):
    name: str = Field(max_length=500, description="of a column")
    log: bool | None = Field(None, description="logarithmic; as the search space says if not given")


class Brush(Request):
    """What is picked on a column: a range of numbers, or values. A trial without a value is in neither."""

    range: tuple[Finite | None, Finite | None] | None = Field(
        None, description="from and to, both included; null: open"
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
        default={}, max_length=100, description="by column; all must hold"
    )
    top: float | None = Field(None, gt=0, le=1, description="only this share of the trials, the best ones")
    filter: str = Field("", max_length=4000)
    bins: int = Field(128, ge=2, le=512, description="of an axis of numbers")
    metric: str = Field("value", max_length=500, description="the column whose means are given")
    mode: OptimizeMode | None = Field(
        None, description="what is best; the tuner's optimize_mode if not given"
    )
    lines: int = Field(5000, ge=0, le=100_000, description="number of selected trials named, at most")
    background: bool = Field(
        True, description="give the histograms of all trials, which no brush changes, too"
    )


# ---- importance


class ParameterImportance(Model):
    name: str = Field(description="of the parameter; in a nested choice outer/inner")
    importance: float = Field(description="its share; 1 in all")
    error: float = Field(description="the standard deviation of that among draws from the trials")


class Importance(Model):
    """How much each parameter matters for being among the best trials."""

    revision: int
    source: str = Field(description="the method")
    trials: int = Field(description="with a result")
    best: int = Field(description="how many of them are taken as the best ones")
    sentence: str | None = Field(description="why no importance can be given")
    parameters: list[ParameterImportance] = Field(description="the most important one first")


# ---- history


class Improvement(Model):
    sequence: int
    trial_id: str
    ended_s: float | None = Field(description="seconds since the experiment's creation")
    value: float


class History(Model):
    """The best result so far, by sequence of the trials that have succeeded."""

    revision: int
    minimise: bool
    results: int
    improvements: int = Field(description="in all; `points` are fewer if that was asked for")
    last_sequence: int | None = Field(description="of the youngest trial: as far as the last value holds")
    points: list[Improvement] = Field(description="the trials that were better than all before them")


# ---- several objectives


class ParetoObjective(Model):
    name: str
    mode: OptimizeMode
    column: str = Field(description="where all trials' numbers are; of the main objective, `value`")
    min: float | None = Field(description="of all trials that count; null: none does")
    max: float | None


class ParetoTrial(Model):
    sequence: int
    trial_id: str
    ended_s: float | None = Field(description="seconds since the experiment's creation")
    values: dict[str, float] = Field(description="by objective")


class ParetoSet(Model):
    """The trials that no other one beats in one objective without losing in another."""

    revision: int
    objectives: list[ParetoObjective] = Field(
        description="the main one first; of an experiment without any NNI's number, as `default`"
    )
    results: int = Field(description="trials that have succeeded with a number for each objective")
    total: int = Field(description="how many of them are in the set; equal ones all are")
    trials: list[ParetoTrial] = Field(description="the best one in the main objective first")


# ---- early stops


class StoppedTrial(Model):
    sequence: int
    trial_id: str
    status: TrialStatus
    by: StoppedBy
    step: int | None = Field(description="of the last intermediate metric; null: there was none")
    value: float | None = Field(description="of that metric")
    ended_s: float | None = Field(description="seconds since the experiment's creation")
    reason: str = Field(description="one sentence")


class StoppedCounts(Model):
    assessor: int
    duration: int
    user: int
    system: int


class StepCounts(Model):
    step: int
    reached: int = Field(description="trials that have reported it")
    stopped: int = Field(description="those of them that were stopped there")


class StoppedTrials(Model):
    """Trials that were stopped. EARLY_STOPPED is one by the assessor or by maxTrialDuration."""

    revision: int
    total: int = Field(description="how many match, on all pages")
    assessor: str | None = Field(description="its name in the configuration")
    counts: StoppedCounts = Field(description="whoever is asked for in `by`")
    steps: list[StepCounts] = Field(description="the steps at which any was stopped, ascending")
    trials: list[StoppedTrial] = Field(description="the one that ended last first")
