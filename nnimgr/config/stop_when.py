"""Model of the field ``stopWhen``: the rules that end an experiment."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, PlainValidator, model_validator

from nnimgr.config.base import ConfigModel
from nnimgr.config.values import Duration, Positive, finite
from nnimgr.rules import terms
from training_services.units import parse_duration

__all__ = ["PlateauConfig", "StopWhenConfig"]


def _improvement(value: object) -> float:
    if (number := finite(value)) < 0:
        raise ValueError(f"must be at least 0, not {value!r}")
    return number


class PlateauConfig(ConfigModel):
    """Rule: the best result has not improved within a number of trials."""

    trials: Positive
    improvement: Annotated[float, PlainValidator(_improvement)] = 0.0


class StopWhenConfig(ConfigModel):
    """Rules that end an experiment. The experiment ends as soon as one of them holds."""

    metric: Annotated[float, PlainValidator(finite)] | None = None
    plateau: PlateauConfig | None = None
    total_trial_time: Duration | None = None
    failures: Positive | None = None
    running_trials: Annotated[terms.RunningTrials, Field(strict=False)] = terms.RunningTrials.FINISH

    @model_validator(mode="after")
    def _has_a_rule(self) -> Self:
        if (self.metric, self.plateau, self.total_trial_time, self.failures) == (None,) * 4:
            raise ValueError("give at least one rule: 'metric', 'plateau', 'totalTrialTime' or 'failures'")
        return self

    def rules(self) -> terms.StopWhen:
        """Return the rules in the form that the core uses."""
        plateau, time = self.plateau, self.total_trial_time
        return terms.StopWhen(
            metric=self.metric,
            plateau=None
            if plateau is None
            else terms.Plateau(trials=plateau.trials, improvement=plateau.improvement),
            total_trial_time=None if time is None else parse_duration(time),
            failures=self.failures,
            running_trials=self.running_trials,
        )
