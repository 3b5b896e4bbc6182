"""Commands to the training service and to the tuner, as ``nnimgr.rules.plan`` decides them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob:
    """Submit the job for a trial's attempt to the training service."""

    trial_id: str
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    """Stop a job. Its processes have the time ``grace`` to end by themselves."""

    job_id: str
    grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTuner:
    """Request parameter sets from the tuner until ``count`` are pending. ``urgent``: a slot is free."""

    count: int
    urgent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskFurther:
    """Request parameter set number ``index`` of a running multi-phase trial from the tuner."""

    trial_id: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateJob:
    """Write parameter set number ``index`` to the trial's file. ``record`` is the content of the file."""

    job_id: str
    index: int
    record: str


Command = SubmitJob | CancelJob | AskTuner | AskFurther | UpdateJob
