"""Requests and answers about experiments."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, Field, SkipValidation

from nnimgr.api.models.base import Done, Few, First, JsonObject, JsonValue, Model, Request, sober
from nnimgr.index import check_experiment_id
from nnimgr.rules.facts import DrainReason, ExperimentStatus, TrialStatus

Environ = Annotated[dict[str, str], Few]


class CreateExperiment(Request):
    """A new experiment. Without ``environ`` it runs with the server's own environment."""

    config: JsonObject = Field(description="the configuration, canonical (camelCase) NNI v2")
    search_space: JsonObject = Field(description="the search space, as in NNI's search_space.json")
    id: Annotated[str, AfterValidator(check_experiment_id)] | None = Field(
        None, description="an id of your own: sent twice it makes one experiment"
    )
    environ: Environ | None = Field(None, description="variables for its tuner and local trials")
    cwd: str | None = Field(None, description="absolute; what relative paths of the configuration refer to")
    python: str | None = Field(None, description="absolute path of the interpreter of its tuner and assessor")


class ResumeExperiment(Request):
    """Without ``environ`` the experiment keeps its environment variables, directory and interpreter."""

    environ: Environ | None = None
    cwd: str | None = None
    python: str | None = None


class StopExperiment(Request):
    detach: bool = Field(False, description="leave its trials running; a resume takes them up again")


class ImportedRecord(Request):
    parameter: JsonObject
    value: JsonValue


class ImportData(Request):
    # Checked by the route in a thread: very many of them take longer than others should wait.
    records: list[SkipValidation[ImportedRecord]] = Field(max_length=100_000)


class ImportedRecords(Model):
    """A few records of an import."""

    records: Annotated[list[ImportedRecord], First]


class Created(Model):
    id: str


class Stopped(Model):
    still_running: list[str] = Field(
        description="trials that run on (with detach), or may on machines that are silent"
    )
    left: list[str] = Field(default=[], description="what could not be ended on machines, a sentence each")
    server_leaves: bool = Field(description="it was the last experiment of a server that leaves then")


class Deleted(Done):
    left: list[str] = Field(description="what was left on machines, a sentence each")


class BestTrial(Model):
    trial_id: str
    sequence: int
    value: float
    ended_at: AwareDatetime | None
    parameters: Any


Tag = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(sober)]


class ChangeLabels(Request):
    """What is not given stays as it is."""

    tags: Annotated[list[Tag], First] | None = Field(None, max_length=50)
    archived: bool | None = Field(None, description="put away: lists leave it out unless they show all")


class Labels(Model):
    tags: list[str]
    archived: bool


class _AnyExperiment(Model):
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
    owner: str | None = Field(description="the user to whom its folder belongs")
    tags: list[str]
    archived: bool
    max_trial_number: int | None = Field(description="null: unlimited, or its database cannot be read")
    trial_concurrency: int | None = Field(description="null: its database cannot be read; the next, too")
    optimize_mode: str | None
    objectives: dict[str, str] = Field(
        description="with maximize or minimize; bestValue is of the first one; none: results are one number"
    )


class ExperimentError(Model):
    """User code of a tuner or assessor raised, answered nonsense or died."""

    at: AwareDatetime
    role: str
    call: str
    sentence: str
    traceback: str
    trial_id: str | None


FeasibleShare = Annotated[
    float | None,
    Field(
        description="how much of the search space meets searchSpaceConstraints, about, from 0 to 1; null: "
        "there are none, or only the user's tuner can tell"
    ),
]


class LimitsModel(Model):
    """The limits that hold now. null: unlimited."""

    trial_concurrency: int
    max_trial_number: int | None
    max_experiment_duration_s: float | None
    max_trial_duration_s: float | None


class Notice(Model):
    """Something that is so at present and is not stored, such as a call that takes long."""

    about: str
    sentence: str
    subject: str = Field(description="the sentence without how long that has been so")
    seconds: float | None = Field(description="how long that has been so, where it is known")
    detail: str = Field(description="a stack, where there is one")


class Experiment(_AnyExperiment):
    """An experiment's profile."""

    status: ExperimentStatus
    without_result: int = Field(description="SUCCEEDED trials without a usable result")
    best_trial: BestTrial | None
    optimize_mode: str = Field(description="maximize or minimize: what best means")
    goal_stated: bool = Field(description="false: the configuration names no goal, NNI's default holds")
    limits: LimitsModel
    now: str = Field(description="one sentence: what it is doing, or why it does nothing more")
    config: dict[str, Any]
    search_space: dict[str, Any]
    feasible_share: FeasibleShare
    config_text: str = Field(description="both of them as YAML, as a new experiment could be made of")
    notices: list[Notice]
    directory: str = Field(description="its folder on the server's machine")
    errors: list[ExperimentError] = Field(description="the latest ones, newest first")
    last_number: int = Field(description="of its last fact: a cursor for the event stream")


class Experiments(Model):
    experiments: list[ExperimentSummary]
