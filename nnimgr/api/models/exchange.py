"""Requests and answers of the exchange with a program that runs trials itself (platform ``ask``)."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from nnimgr.api.models.base import First, JsonObject, JsonValue, Model, Request
from nnimgr.rules.facts import TrialStatus

_MOST = 10_000  # largest number of trials in one request

_Attempt = Annotated[int, Field(ge=1, lt=2**31)]
_TrialId = Annotated[str, Field(max_length=16)]


def _number_or_object(value: Any) -> Any:
    try:
        usable = isinstance(value, dict) or math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        usable = False
    if not usable:
        raise ValueError("must be a finite number, or an object with numbers")
    return value


_Result = Annotated[
    Annotated[float, Field(allow_inf_nan=False)] | JsonObject, BeforeValidator(_number_or_object)
]
_NotFinite = Literal["NaN", "Infinity", "-Infinity"]  # as trials write such numbers in JSON


class HeldTrial(Request):
    """Attempt at a trial, which the program has got."""

    trial_id: _TrialId
    attempt: _Attempt = 1


class TrialReport(HeldTrial):
    """Intermediate result of a trial: a number, also one that is not finite, or an object with numbers."""

    number: int = Field(ge=0, lt=2**31, description="number of the result in the attempt, from 0")
    value: _Result | _NotFinite


class TrialTell(HeldTrial):
    """End of a trial: exactly one of `value`, `error` and `canceled`."""

    value: _Result | None = Field(None, description="the trial's result: a number, or an object with numbers")
    error: str | None = Field(
        None, min_length=1, max_length=2000, description="one sentence: why the trial has failed"
    )
    canceled: bool = Field(False, description="true: the program's user has canceled the trial")

    @model_validator(mode="after")
    def _one(self) -> TrialTell:
        if (self.value is not None) + (self.error is not None) + self.canceled != 1:
            raise ValueError("give exactly one of value, error and canceled")
        return self


class WantedTrials(Request):
    """Request for trials. Repeated with the same key, it gets the same trials while they are open."""

    key: str = Field(
        min_length=1,
        max_length=100,
        pattern=r"^[!-~]+$",
        description="a text that the program has not used before, such as a random UUID",
    )
    count: int = Field(1, ge=1, le=_MOST)
    holds: int | None = Field(
        None,
        ge=0,
        description="number of other trials that the program has. With it, the request also waits while no "
        "trials are created, if the end of another program's trial may bring one",
    )


class Exchange(Request):
    """What a program has to report, and what it wants."""

    reports: Annotated[list[TrialReport], First] = Field([], max_length=_MOST)
    tells: Annotated[list[TrialTell], First] = Field([], max_length=_MOST)
    alive: Annotated[list[HeldTrial], First] = Field(
        [], max_length=_MOST, description="trials that the program still runs; their leases are renewed"
    )
    wanted: WantedTrials | None = None


class GivenTrial(Model):
    """Trial that the program has got, and runs from now on."""

    id: str
    sequence: int
    attempt: int
    parameters: Any
    seed: int | None = Field(
        description="seed for the trial's random numbers, if it repeats another one (confirmBest); null: any"
    )


class GoneTrial(Model):
    """Trial that the request names, and that had ended before the request came."""

    trial_id: str
    attempt: int
    status: TrialStatus
    reason: str
    result: JsonValue = Field(description="final result that is recorded; null: none")


class Exchanged(Model):
    trials: list[GivenTrial] = Field(
        description="the trials that the program has got. There may be fewer than it wants, also none after "
        "10 s without a parameter set: it then repeats the request with the same key"
    )
    gone: list[GoneTrial]
    ended: str | None = Field(description="why no more trials are created; null: further ones may come")
    waiting: str | None = Field(
        description="what the experiment does; null: the program has got trials, gets no more, or wants none"
    )
