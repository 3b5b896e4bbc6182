"""Requests and answers about trials, their metrics and their files."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AwareDatetime, Field, model_validator

from nnimgr.api.models.base import First, JsonObject, Model, Request
from nnimgr.rules.facts import Cause, SuggestionSource, TrialStatus


class Order(StrEnum):
    ASCENDING = "asc"
    DESCENDING = "desc"


TrialIds = Annotated[list[Annotated[str, Field(max_length=16)]], First]


class RerunTrials(Request):
    """Failed trials to run again. Without ``trialIds``, these are all failed trials that were not run again
    yet.
    """

    trial_ids: TrialIds | None = Field(None, max_length=100_000)


class StopTrials(Request):
    trial_ids: TrialIds = Field(min_length=1, max_length=10_000)


class NotStopped(Model):
    trial_id: str
    reason: str = Field(description="one sentence")


class StopAnswer(Model):
    stopped: list[str] = Field(description="trials that will end soon; the stop is stored")
    refused: list[NotStopped]


RAISES = "raise maxTrialNumber for this trial if it is reached; otherwise the trial is refused"


class AddTrial(Request):
    """Parameters of a new trial. With ``like``, they are those of another trial, or changed ones."""

    parameters: JsonObject | None = Field(
        None, description="all parameters; default: those of the trial `like`"
    )
    like: str | None = Field(None, description="id of another trial: only what differs from it is checked")
    raise_limit: bool = Field(False, description=RAISES)

    @model_validator(mode="after")
    def _says_what(self) -> AddTrial:
        if self.parameters is None and self.like is None:
            raise ValueError("needs parameters, or like")
        return self


class CheckpointName(Request):
    """Checkpoint of a trial."""

    attempt: int = Field(ge=1, lt=2**31)
    number: int = Field(ge=1, lt=2**31)


class ForkTrial(Request):
    """How a new trial continues from a checkpoint."""

    parameters: JsonObject | None = Field(None, description="all parameters; default: those of the trial")
    checkpoint: CheckpointName | None = Field(None, description="default: the newest checkpoint")
    raise_limit: bool = Field(False, description=RAISES)


class CreatedTrial(Model):
    id: str
    sequence: int


class AddedTrial(CreatedTrial):
    warnings: list[str] = Field(
        description="one sentence for each value that does not fit the search space; with `like`, and for a "
        "fork, only for changed ones"
    )


class RerunTrial(CreatedTrial):
    retry_of: str = Field(description="failed trial that the new trial replaces")


class RerunStarted(Model):
    trials: list[RerunTrial] = Field(description="new trials, with the parameters of the failed trials")


class ParameterSet(Model):
    parameter_id: int | None
    parameters: Any
    final_value: float | None
    final_text: str | None = Field(
        description="JSON text of the parameter set's final metric, as the trial wrote it"
    )


class Trial(Model):
    id: str
    sequence: int
    status: TrialStatus
    detail: str | None = Field(description="addition to the status: queued, placed or stopping; null: none")
    source: SuggestionSource
    parameter_id: int | None
    parameters: Any
    retry_of: str | None
    attempt: int = Field(description="number of the latest attempt; 0 before the first")
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    reason: str | None = Field(description="one sentence: why the trial waits, stops or has ended")
    note: str | None = Field(description="one sentence about something unusual")
    user_note: str = Field(description="text that a user has added; empty: none")
    tags: list[str] = Field(description="tags that a user has added")
    no_result: str | None = Field(description="one sentence: why the trial SUCCEEDED without a usable result")
    cause: Cause | None = Field(description="cause for which the trial has FAILED; null: unknown, not failed")
    final_value: float | None
    final_text: str | None = Field(description="JSON text of the final metric, as the trial wrote it")
    latest_value: float | None
    latest_text: str | None
    intermediates: int = Field(description="number of intermediate metrics that the trial has reported")
    log_path: str = Field(
        description="folder of the latest attempt that has got a place; HOST:~/... on another machine; empty "
        "if a program of the user runs the trial"
    )
    sets: list[ParameterSet] | None = Field(
        description="all parameter sets of a trial with several (multiPhase)"
    )


class Member(Model):
    """Member of an attempt that runs on several hosts."""

    member: int = Field(description="number of the member; 0 is the leader")
    keeper_id: str
    gpus: list[int]
    state: str = Field(description="placed, running, or ended")
    started_at: AwareDatetime | None
    pid: int | None
    ended_at: AwareDatetime | None
    end_reason: str | None
    exit_code: int | None
    signal: int | None
    message: str | None
    log_path: str = Field(description="folder of the member; HOST:~/... on another machine")


class Job(Model):
    """Attempt of a trial, which is one run of its command."""

    id: str
    attempt: int
    keeper_id: str | None
    gpus: list[int]
    place_reason: str | None = Field(
        description="one sentence: why another platform than the first runs it; null: the first does"
    )
    placed_at: AwareDatetime | None
    started_at: AwareDatetime | None
    pid: int | None
    ended_at: AwareDatetime | None
    end_reason: str | None
    exit_code: int | None
    signal: int | None
    frames: int = Field(description="number of entries of the metrics file that the server has recorded")
    message: str | None
    cause: Cause | None = Field(description="cause of the failure or loss; null: unknown, or none of both")
    log_path: str = Field(
        description="folder of the attempt; HOST:~/... on another machine; empty if a program of the user "
        "runs the trial"
    )
    members: list[Member] = Field(
        description="members of an attempt that runs on several hosts, the leader first; else empty"
    )


class Checkpoint(Model):
    """Saved state of a trial."""

    attempt: int = Field(description="number of the attempt that has saved the checkpoint")
    number: int = Field(description="number of the checkpoint in its attempt, from 1")
    step: int | None = Field(description="the trial's own count of its progress")
    size: int = Field(description="size in bytes of all files of the checkpoint")
    files: int
    at: AwareDatetime
    state: str = Field(
        description="saved; deleted, because nobody needs it any more; lost, because its host lacks the "
        "files; or unusable, because no attempt can continue from a checkpoint on this platform"
    )
    kept: bool = Field(description="the server has a copy, from which attempts can continue on any host")
    stored: bool = Field(description="the storage that checkpoints.storage names has the copy, too")
    pinned: bool = Field(description="a user has pinned it, so that it is not deleted")


class Leg(Model):
    """Stretch of a trial with other parameters, which continues from a checkpoint of this or another trial.

    The first leg, with which the trial begins, has number 0 and is not listed.
    """

    trial_id: str
    leg: int = Field(description="number of the leg in its trial")
    attempt: int = Field(description="the attempt with which the leg begins")
    at: AwareDatetime
    parameters: Any
    reports: int = Field(description="number of the leg's first intermediate result")
    origin_trial_id: str = Field(description="the trial that has saved the checkpoint")
    origin_attempt: int
    origin_number: int
    step: int | None = Field(description="the checkpoint's step, by the trial's own count")
    saved_at: AwareDatetime | None = Field(description="when the checkpoint was saved; null: unknown")
    reason: str


class Fork(Model):
    """Trial that a user has let continue from a checkpoint of another trial."""

    trial_id: str
    reports: int = Field(description="number of the trial's first intermediate result")
    origin_trial_id: str = Field(description="the trial that has saved the checkpoint")
    origin_attempt: int
    origin_number: int
    step: int | None = Field(description="the checkpoint's step, by the trial's own count")
    saved_at: AwareDatetime | None = Field(description="when the checkpoint was saved; null: unknown")


class RelatedTrial(Model):
    """Trial that has several legs, or that a leg or a fork connects with another trial."""

    trial_id: str
    sequence: int
    status: TrialStatus
    parameters: Any = Field(description="parameters of the trial's first leg")
    intermediates: int = Field(description="number of intermediate metrics that the trial has reported")
    started_at: AwareDatetime | None = Field(description="start of the trial's first attempt")
    ended_at: AwareDatetime | None


class Lineage(Model):
    """From which checkpoints trials have continued."""

    trials: list[RelatedTrial] = Field(description="the trials of the legs and forks, by number")
    legs: list[Leg] = Field(description="legs of all trials, the oldest first")
    forks: list[Fork] = Field(description="the oldest first")


class TrialDetail(Trial):
    """Trial with all its attempts, checkpoints and legs."""

    jobs: list[Job]
    checkpoints: list[Checkpoint] = Field(description="checkpoints, in the order in which they were saved")
    first_parameters: Any = Field(description="parameters of the trial's first leg")
    legs: list[Leg] = Field(description="legs after the first one, in order")
    retried_as: str | None = Field(description="trial that runs the parameters again; null: none")


class Trials(Model):
    total: int = Field(description="number of matching trials, on all pages")
    trials: list[Trial]


class Metric(Model):
    number: int = Field(description="number of the fact, which can be used as `after`")
    trial_id: str
    attempt: int
    position: int
    parameter_id: str | None = Field(description="JSON text of the id of the metric's parameter set")
    type: str = Field(description="PERIODICAL or FINAL")
    sequence: int
    at: AwareDatetime
    value: float | None
    text: str


class Metrics(Model):
    metrics: list[Metric]
    next_after: int | None = Field(
        description="value of `after` for the next page; null: no more metrics now"
    )


class TrialCurve(Model):
    """Intermediate metrics of a trial for a chart. They are from the latest attempt that has reported any.

    If there are too many metrics, only some of them are returned.
    """

    attempt: int = Field(description="number of the attempt; 0: no attempt has reported metrics")
    total: int = Field(description="number of intermediate metrics that the attempt has reported")
    after: int = Field(description="value of `after` with which `/metrics` returns newer metrics")
    metrics: list[Metric]


class TrialFile(Model):
    """Regular file that an attempt has written."""

    path: str = Field(description="path below the attempt's folder")
    size: int = Field(description="bytes")
    modified_at: AwareDatetime = Field(description="time of the last change, by the clock of the machine")


class TrialFiles(Model):
    attempt: int
    files: list[TrialFile]
    complete: bool = Field(description="true: the list has all files; false: it was cut")


class ExportedTrial(Model):
    """Result of a trial that has succeeded, with its intermediate metrics if they were requested."""

    trial_id: str
    sequence: int
    parameter_id: int | None
    parameters: Any
    value: float | None
    text: str
    intermediates: list[float | None] | None


class Export(Model):
    trials: list[ExportedTrial]
