"""Requests and answers about trials, their metrics and their files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from nnimgr.api.models.base import First, JsonObject, Model, Request
from nnimgr.rules.facts import SuggestionSource, TrialStatus

TrialIds = Annotated[list[Annotated[str, Field(max_length=16)]], First]


class RerunTrials(Request):
    """Without ``trialIds`` all trials that have failed and were not run again."""

    trial_ids: TrialIds | None = Field(None, max_length=100_000)


class StopTrials(Request):
    trial_ids: TrialIds = Field(min_length=1, max_length=10_000)


class NotStopped(Model):
    trial_id: str
    reason: str = Field(description="one sentence")


class StopAnswer(Model):
    stopped: list[str] = Field(description="those that end soon: the wish is durable")
    refused: list[NotStopped]


class AddTrial(Request):
    parameters: JsonObject


class CreatedTrial(Model):
    id: str
    sequence: int


class RerunTrial(CreatedTrial):
    retry_of: str = Field(description="the failed trial whose place it takes")


class RerunStarted(Model):
    trials: list[RerunTrial] = Field(description="the new trials, with the parameters of the failed ones")


class ParameterSet(Model):
    parameter_id: int | None
    parameters: Any
    final_value: float | None
    final_text: str | None = Field(description="JSON text of its final metric, as the trial wrote it")


class Trial(Model):
    id: str
    sequence: int
    status: TrialStatus
    detail: str | None = Field(description="queued, placed or stopping; null when there is nothing to add")
    source: SuggestionSource
    parameter_id: int | None
    parameters: Any
    retry_of: str | None
    attempt: int = Field(description="the latest attempt, 0 before the first")
    created_at: AwareDatetime
    started_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    reason: str | None = Field(description="one sentence: why it waits, stops or has ended")
    note: str | None = Field(description="one sentence on something odd")
    no_result: str | None = Field(description="one sentence: why it SUCCEEDED without a usable result")
    final_value: float | None
    final_text: str | None = Field(description="JSON text of the final metric, as the trial wrote it")
    latest_value: float | None
    latest_text: str | None
    intermediates: int = Field(description="how many intermediate metrics it has reported")
    log_path: str = Field(description="the folder of the latest attempt; HOST:~/... on another machine")
    sets: list[ParameterSet] | None = Field(description="of a trial that got several (multiPhase): all")


class Job(Model):
    """One attempt at a trial."""

    id: str
    attempt: int
    keeper_id: str | None
    gpus: list[int]
    placed_at: AwareDatetime | None
    started_at: AwareDatetime | None
    pid: int | None
    ended_at: AwareDatetime | None
    end_reason: str | None
    exit_code: int | None
    signal: int | None
    frames: int = Field(description="frames of its metrics file that are recorded")
    message: str | None


class TrialDetail(Trial):
    """A trial with all of its attempts."""

    jobs: list[Job]


class Trials(Model):
    total: int = Field(description="how many match, on all pages")
    trials: list[Trial]


class Metric(Model):
    number: int = Field(description="of the fact: a cursor")
    trial_id: str
    attempt: int
    position: int
    parameter_id: str | None = Field(description="JSON text of the id of the parameter set that it is of")
    type: str = Field(description="PERIODICAL or FINAL")
    sequence: int
    at: AwareDatetime
    value: float | None
    text: str


class Metrics(Model):
    metrics: list[Metric]
    next_after: int | None = Field(description="what to send as `after` for the next page; null: no more now")


class TrialCurve(Model):
    """Intermediate metrics of the latest attempt that has reported any: all of them, or few."""

    attempt: int = Field(description="0: no attempt has reported any")
    total: int = Field(description="how many intermediate metrics the attempt has reported")
    after: int = Field(description="a cursor: `/metrics?after=` continues behind the last metric looked at")
    metrics: list[Metric]


class TrialFile(Model):
    """A plain file that an attempt has written."""

    path: str = Field(description="below the attempt's folder")
    size: int = Field(description="bytes")
    modified_at: AwareDatetime = Field(description="the machine's clock")


class TrialFiles(Model):
    attempt: int
    files: list[TrialFile]
    complete: bool = Field(description="false: there are more files than these")


class ExportedTrial(Model):
    """A result of a trial that has succeeded, and what it had reported before."""

    trial_id: str
    sequence: int
    parameter_id: int | None
    parameters: Any
    value: float | None
    text: str
    intermediates: list[float | None] | None


class Export(Model):
    trials: list[ExportedTrial]
