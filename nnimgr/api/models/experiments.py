"""Requests and answers about experiments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, Field, SkipValidation, model_validator

from nnimgr.api.models.base import Done, Few, First, JsonObject, JsonValue, Model, Request, sober
from nnimgr.index import check_experiment_id
from nnimgr.rules.facts import DrainReason, ExperimentStatus, TrialStatus

Environ = Annotated[dict[str, str], Few]


class CreateExperiment(Request):
    """Experiment to create. Without ``environ``, it runs with the server's own environment variables."""

    config: JsonObject = Field(description="the configuration, canonical (camelCase) NNI v2")
    search_space: JsonObject = Field(description="the search space, as in NNI's search_space.json")
    id: Annotated[str, AfterValidator(check_experiment_id)] | None = Field(
        None, description="id that you choose; a repeated request with it creates no second experiment"
    )
    environ: Environ | None = Field(
        None, description="environment variables of the experiment's tuner and local trials"
    )
    cwd: str | None = Field(None, description="absolute directory for relative paths of the configuration")
    python: str | None = Field(
        None, description="absolute path of the Python interpreter of the tuner and the assessor"
    )


class ResumeExperiment(Request):
    """Options for resuming an experiment. Without ``environ``, the other options are ignored.

    The experiment then keeps its environment variables, working directory and interpreter.
    """

    environ: Environ | None = None
    cwd: str | None = None
    python: str | None = None


class StopExperiment(Request):
    detach: bool = Field(False, description="leave the trials running; a resume continues to watch them")
    save: bool = Field(
        False,
        description="ask running trials to save their state before they end, and wait for it for at most "
        "`checkpoints.saveWithin`; not with `detach`",
    )

    @model_validator(mode="after")
    def _check(self) -> StopExperiment:
        if self.detach and self.save:
            raise ValueError("detach and save exclude each other: detached trials continue")
        return self


class ImportedRecord(Request):
    parameter: JsonObject
    value: JsonValue


class ImportData(Request):
    # The route checks the records itself, in a thread. Checking very many here would delay other requests.
    records: list[SkipValidation[ImportedRecord]] = Field(max_length=100_000)


class ImportedRecords(Model):
    """Some of the records of an import, which are checked together."""

    records: Annotated[list[ImportedRecord], First]


class Imported(Done):
    """Answer to an import of results, which are numbered from 1."""

    given: int = Field(description="number of results that the tuner gets")
    warnings: list[str] = Field(
        description="one sentence about the results that were left out, and one about those that do not fit "
        "the search space; each names the first one and counts the others"
    )


class Created(Model):
    id: str


class Stopped(Model):
    still_running: list[str] = Field(
        description="trials that continue (with detach), or may still run on silent machines"
    )
    unsaved: list[str] = Field(
        default=[],
        description="running trials that were canceled, because they had saved nothing (with save)",
    )
    left: list[str] = Field(
        default=[],
        description="one sentence about each thing that could not be ended on a machine, and about "
        "checkpoints that the storage lacks",
    )
    server_leaves: bool = Field(description="true: the server exits, because this was its last experiment")
    tensorboards: list[str] = Field(
        default=[], description="experiments whose TensorBoards keep the server, which would exit otherwise"
    )


class Deleted(Done):
    left: list[str] = Field(description="one sentence about each thing that was left on a machine")


class BestTrial(Model):
    trial_id: str
    sequence: int
    value: float
    ended_at: AwareDatetime | None
    parameters: Any


class ConfirmedTrial(Model):
    """Trial that was run again with other seeds, after the search."""

    trial_id: str
    sequence: int
    parameters: Any
    value: float | None = Field(description="its result in the search")
    usable: int = Field(description="number of new runs with a usable result")
    unusable: int = Field(description="number of new runs that have ended without a usable result")
    open: int = Field(description="number of new runs that have not ended")
    mean: float | None = Field(description="mean of the usable results; null: there is none")
    deviation: float | None = Field(description="sample standard deviation; null: fewer than two results")
    low: float | None = Field(
        description="lower end of the mean's 95 % confidence interval, by Student's t distribution; null: "
        "fewer than two results"
    )
    high: float | None = Field(description="upper end of this interval")


class Confirmations(Model):
    """Runs that confirm the best trials (confirmBest)."""

    top: int = Field(description="number of trials to confirm")
    runs: int = Field(description="number of new runs of each of these trials")
    made: int = Field(
        description="number of runs that were created; they do not count towards maxTrialNumber"
    )
    open: int = Field(description="number of these runs that have not ended")
    trials: list[ConfirmedTrial] = Field(
        description="confirmed trials, the best mean first; empty: the search has not ended yet, or no trial "
        "could be confirmed"
    )


Tag = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(sober)]


class ChangeLabels(Request):
    """New labels of an experiment: its tags, and whether it is archived. Omitted fields keep their values."""

    tags: Annotated[list[Tag], First] | None = Field(None, max_length=50)
    archived: bool | None = Field(None, description="true: lists omit the experiment unless they show all")


class Labels(Model):
    tags: list[str]
    archived: bool


class _AnyExperiment(Model):
    id: str
    name: str
    drain: DrainReason | None = Field(description="reason why a DRAINING experiment starts no new trials")
    reason: str = Field(description="one sentence about the status")
    platform: str
    port: int | None = Field(description="port of the server that runs the experiment, or ran it last")
    served: bool = Field(description="true: the experiment is open on this server")
    created_at: AwareDatetime | None
    ended_at: AwareDatetime | None
    duration_s: float = Field(description="time that the experiment has been running, without pauses")
    counts: dict[TrialStatus, int]


class ExperimentSummary(_AnyExperiment):
    status: str = Field(
        description="status; if the experiment is not open on this server: read from the index of experiments"
    )
    best_trial_id: str | None
    best_value: float | None
    owner: str | None = Field(description="user who owns the experiment's folder")
    tags: list[str]
    archived: bool
    max_trial_number: int | None = Field(
        description="limit of the number of trials; null: unlimited, or the database cannot be read"
    )
    trial_concurrency: int | None = Field(description="number of slots; null: the database cannot be read")
    optimize_mode: str | None
    objectives: dict[str, str] = Field(
        description="direction (maximize or minimize) by objective name; bestValue is a value of the first "
        "objective; empty: the experiment has no objectives, and a result is one number"
    )


class ExperimentError(Model):
    """Error of a tuner's or assessor's code: an exception, an invalid answer, or the end of its process."""

    at: AwareDatetime
    role: str
    call: str
    sentence: str
    traceback: str
    trial_id: str | None


FeasibleShare = Annotated[
    float | None,
    Field(
        description="estimated share (0 to 1) of the search space that meets searchSpaceConstraints; null: "
        "there are none, or only the user's tuner can check them"
    ),
]


class LimitsModel(Model):
    """Current limits of an experiment. null: there is no limit."""

    trial_concurrency: int
    max_trial_number: int | None
    max_experiment_duration_s: float | None
    max_trial_duration_s: float | None


class Pace(Model):
    """Rate at which a running experiment creates trials, and the expected time when a limit ends it."""

    trials_per_minute: float | None = Field(
        description="rate of the latest 30 trials; null: there are too few trials yet"
    )
    remaining_s: float | None = Field(
        description="seconds until a limit ends the experiment, at this pace; null: unknown"
    )
    limit: Literal["maxTrialNumber", "maxExperimentDuration"] | None = Field(
        description="limit that will end the experiment first"
    )


class Notice(Model):
    """Something unusual at this moment, such as a slow call of a tuner. Notices are not stored."""

    about: str
    sentence: str
    subject: str = Field(description="the sentence without its duration")
    seconds: float | None = Field(description="duration of the condition, if known")
    detail: str = Field(description="a stack trace, if there is one")


class Experiment(_AnyExperiment):
    """An experiment, with its configuration, status, progress and best trial."""

    status: ExperimentStatus
    without_result: int = Field(description="SUCCEEDED trials without a usable result")
    retried: int = Field(
        description="FAILED trials that were retried as other trials; like SYS_CANCELED trials, they do not "
        "count towards maxTrialNumber"
    )
    best_trial: BestTrial | None
    confirmations: Confirmations | None = Field(
        description="new runs of the best trials; null: the configuration has no confirmBest"
    )
    optimize_mode: str = Field(description="maximize or minimize")
    goal_stated: bool = Field(
        description="true: the configuration states the direction of results; false: NNI's default applies"
    )
    objectives: dict[str, str] = Field(
        description="direction (maximize or minimize) by objective name; bestTrial has the best value of the "
        "first objective; empty: the experiment has no objectives, and a result is one number"
    )
    limits: LimitsModel
    pace: Pace | None = Field(
        description="rate of new trials; null: the experiment does not run on this server"
    )
    now: str = Field(description="one sentence: current activity, or why there is none")
    config: dict[str, Any]
    search_space: dict[str, Any]
    feasible_share: FeasibleShare
    config_text: str = Field(description="configuration and search space as YAML, ready for a new experiment")
    notices: list[Notice]
    directory: str = Field(description="folder of the experiment on the server's machine")
    errors: list[ExperimentError] = Field(description="latest errors, newest first")
    last_number: int = Field(description="number of the last fact, after which an event stream can continue")


class Experiments(Model):
    experiments: list[ExperimentSummary]
