"""What requests and answers look like: the one description from which the OpenAPI document is made.

Keys are camelCase, instants ISO 8601 with a zone, durations seconds. A number that is not finite never leaves
the server: its field is null, and the text field beside it has what the trial wrote.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from nnimgr.core.facts import DrainReason, ExperimentStatus, SuggestionSource, TrialStatus
from nnimgr.index import check_experiment_id
from training_services.base import MachineStatus

_MOST_DEPTH = 64
_MOST_KEYS = 10_000


def _sober(value: Any) -> Any:
    """``value``, if it is finite, valid Unicode, not too deep and not too large. Raises ValueError."""
    level, seen = [value], 0
    for _ in range(_MOST_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, float) and not math.isfinite(item):
                raise ValueError("a number must be finite")
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                for key in item:
                    _check_text(key)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        seen += len(below)
        if seen > _MOST_KEYS:
            raise ValueError(f"at most {_MOST_KEYS} values are allowed")
        if not below:
            return value
        level = below
    raise ValueError(f"at most {_MOST_DEPTH} levels of nesting are allowed")


def _check_text(text: str) -> None:
    """JSON can name halves of surrogate pairs, which no database and no file system takes."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"a text must be valid Unicode, not {text!a:.60}") from None


JsonObject = Annotated[dict[str, Any], AfterValidator(_sober)]
JsonValue = Annotated[Any, AfterValidator(_sober)]


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        ser_json_inf_nan="null",
        frozen=True,
    )


class _Request(_Model):
    model_config = ConfigDict(extra="forbid")


# ---- requests


class CreateExperiment(_Request):
    """A new experiment. Without ``environ`` it runs with the server's own environment."""

    config: JsonObject = Field(description="the configuration, canonical (camelCase) NNI v2")
    search_space: JsonObject = Field(description="the search space, as in NNI's search_space.json")
    id: Annotated[str, AfterValidator(check_experiment_id)] | None = Field(
        None, description="an id of your own: sent twice it makes one experiment"
    )
    environ: dict[str, str] | None = Field(None, description="variables for its tuner and local trials")
    cwd: str | None = Field(None, description="absolute; what relative paths of the configuration refer to")
    python: str | None = Field(None, description="absolute path of the interpreter of its tuner and assessor")


class ResumeExperiment(_Request):
    """Without ``environ`` the experiment goes on with the surroundings it had."""

    environ: dict[str, str] | None = None
    cwd: str | None = None
    python: str | None = None


class StopExperiment(_Request):
    detach: bool = Field(False, description="leave its trials running; a resume takes them up again")


class RerunTrials(_Request):
    """Without ``trialIds`` all trials that have failed and were not run again."""

    trial_ids: list[Annotated[str, Field(max_length=16)]] | None = Field(None, max_length=100_000)


class AddTrial(_Request):
    parameters: JsonObject


class AddMachines(_Request):
    machines: list[JsonObject] = Field(description="items of machineList", min_length=1, max_length=1000)


class DrainMachine(_Request):
    undo: bool = Field(False, description="place trials there again")


class ImportData(_Request):
    records: list[ImportedRecord] = Field(max_length=100_000)


class ImportedRecord(_Request):
    parameter: JsonObject
    value: JsonValue


class Login(_Request):
    code: str = Field(max_length=200)


# ---- answers


class Problem(BaseModel):
    """One thing that is wrong with what was sent."""

    model_config = ConfigDict(extra="allow")

    field: str = Field(description="where, as a path such as tuner.classArgs")
    message: str


class ErrorBody(_Model):
    message: str = Field(description="one sentence")
    problems: list[Problem] | None = Field(None, description="each fault of a configuration or request")


class ErrorAnswer(_Model):
    error: ErrorBody


class Created(_Model):
    id: str


class CreatedTrial(_Model):
    id: str
    sequence: int


class RerunTrial(CreatedTrial):
    retry_of: str = Field(description="the failed trial whose place it takes")


class RerunStarted(_Model):
    trials: list[RerunTrial] = Field(description="the new trials, with the parameters of the failed ones")


class Stopped(_Model):
    still_running: list[str] = Field(
        description="trials that run on (with detach), or may on machines that are silent"
    )
    left: list[str] = Field(default=[], description="what could not be ended on machines, a sentence each")
    server_leaves: bool = Field(description="it was the last experiment of a server that leaves then")


class Done(_Model):
    """It is done."""

    ok: bool = True


class Deleted(Done):
    left: list[str] = Field(description="what was left on machines, a sentence each")


class BestTrial(_Model):
    trial_id: str
    sequence: int
    value: float
    parameters: Any


class _AnyExperiment(_Model):
    id: str
    name: str
    drain: DrainReason | None = Field(description="why a DRAINING experiment starts no new trials")
    reason: str = Field(description="one sentence on the status")
    platform: str
    port: int | None = Field(description="of the server that holds or held it")
    served: bool = Field(description="this server has it open")
    created_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    duration_s: float = Field(description="how long it has been running, pauses left out")
    counts: dict[TrialStatus, int]


class ExperimentSummary(_AnyExperiment):
    status: str = Field(description="of experiments that are not open here: as the index has it")
    best_trial_id: str | None
    best_value: float | None


class ExperimentError(_Model):
    """User code of a tuner or assessor raised, answered nonsense or died."""

    at: AwareDatetime
    role: str
    call: str
    sentence: str
    traceback: str
    trial_id: str | None


class LimitsModel(_Model):
    """The limits that hold now. null: unlimited."""

    trial_concurrency: int
    max_trial_number: int | None
    max_experiment_duration_s: float | None
    max_trial_duration_s: float | None


class Notice(_Model):
    """Something that is so at present and is not stored, such as a call that takes long."""

    about: str
    sentence: str
    detail: str = Field(description="a stack, where there is one")


class Experiment(_AnyExperiment):
    """An experiment's profile."""

    status: ExperimentStatus
    best_trial: BestTrial | None
    optimize_mode: str = Field(description="maximize or minimize: what best means")
    limits: LimitsModel
    config: dict[str, Any]
    search_space: dict[str, Any]
    notices: list[Notice]
    directory: str = Field(description="its folder on the server's machine")
    errors: list[ExperimentError] = Field(description="the latest ones, newest first")
    last_number: int = Field(description="of its last fact: a cursor for the event stream")


class Experiments(_Model):
    experiments: list[ExperimentSummary]


class ParameterSet(_Model):
    parameter_id: int | None
    parameters: Any
    final_value: float | None
    final_text: str | None = Field(description="JSON text of its final metric, as the trial wrote it")


class Trial(_Model):
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
    final_value: float | None
    final_text: str | None = Field(description="JSON text of the final metric, as the trial wrote it")
    latest_value: float | None
    latest_text: str | None
    intermediates: int = Field(description="how many intermediate metrics it has reported")
    log_path: str = Field(description="the folder of the latest attempt; HOST:~/... on another machine")
    sets: list[ParameterSet] | None = Field(description="of a trial that got several (multiPhase): all")


class Job(_Model):
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


class Trials(_Model):
    total: int = Field(description="how many match, on all pages")
    trials: list[Trial]


class Metric(_Model):
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


class Metrics(_Model):
    metrics: list[Metric]
    next_after: int | None = Field(description="what to send as `after` for the next page; null: no more now")


class Machine(_Model):
    """A machine of an experiment. What its keeper has not told (yet) is null."""

    id: str
    name: str
    address: str
    status: MachineStatus
    reason: str | None = Field(description="why it is not connected, or what its keeper complains of")
    since: AwareDatetime | None = Field(description="the last word from there, if it is not connected")
    trial_ids: list[str]
    cpus: float | None
    memory_mb: int | None
    disk_free_mb: int | None = Field(description="when its keeper called first")
    gpus: int | None
    keeper_version: str | None


class Machines(_Model):
    machines: list[Machine]


class AddedMachines(_Model):
    ids: list[str]


class TrialFile(_Model):
    """A plain file that an attempt has written."""

    path: str = Field(description="below the attempt's folder")
    size: int = Field(description="bytes")
    modified_at: AwareDatetime = Field(description="the machine's clock")


class TrialFiles(_Model):
    attempt: int
    files: list[TrialFile]
    complete: bool = Field(description="false: there are more files than these")


class ExportedTrial(_Model):
    """A result of a trial that has succeeded, and what it had reported before."""

    trial_id: str
    sequence: int
    parameter_id: int | None
    parameters: Any
    value: float | None
    text: str
    intermediates: list[float | None] | None


class Export(_Model):
    trials: list[ExportedTrial]


class ServerProfile(_Model):
    version: str
    pid: int
    port: int
    started_at: datetime
    url_prefix: str = Field(description="what stands before NNI's routes; empty: nothing")
    needs_token: bool = Field(description="false: everybody on its machine may do everything")


class LoginAddress(_Model):
    url: str = Field(description="signs a browser in, once; or the server's own, if it needs no token")
    needs_token: bool


ImportData.model_rebuild()
