"""Commands to the training service and to the tuner, which ``nnimgr.rules.plan`` returns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob:
    """Command to submit the job for a trial's attempt to the training service."""

    trial_id: str
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    """Command to stop a job. Its processes have the time ``grace`` to end by themselves.

    ``save_within``: time that the trial first has to save its state; None: the trial is not asked to save.
    """

    job_id: str
    grace: timedelta
    save_within: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveJob:
    """Command to ask a running job to save its state. ``within``: time after which a missing answer is
    reported.
    """

    job_id: str
    within: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTuner:
    """Command to request parameter sets from the tuner until ``count`` requests are pending. ``urgent``: a
    slot is free.
    """

    count: int
    urgent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AskFurther:
    """Command to request parameter set number ``index`` of a running multi-phase trial from the tuner."""

    trial_id: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateJob:
    """Command to write parameter set number ``index`` to the running trial's file. ``record``: content of
    the file.
    """

    job_id: str
    index: int
    record: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherGang:
    """Command to let the members of a gang, which are all there, run the trial's command."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopMembers:
    """Command to stop these members of a gang. Their processes have the time ``grace`` to end."""

    job_id: str
    members: tuple[int, ...]
    grace: timedelta


Command = SubmitJob | CancelJob | SaveJob | AskTuner | AskFurther | UpdateJob | GatherGang | StopMembers
