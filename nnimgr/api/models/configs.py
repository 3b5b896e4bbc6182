"""Requests and answers about texts of configurations: to validate, start or change an experiment."""

from __future__ import annotations

from pydantic import Field

from nnimgr.api.models.base import Model, Request
from nnimgr.api.models.experiments import FeasibleShare, LimitsModel


class ConfigText(Request):
    """Text of a configuration, as in an ``exp.yml``, in YAML or JSON."""

    text: str = Field(max_length=1 << 18)
    cwd: str | None = Field(
        None,
        max_length=4096,
        description="absolute directory for relative paths in the text; default: the home directory of the "
        "server's user",
    )


class ChangeTexts(Request):
    """New values for fields of a running experiment, each as a text in YAML or JSON. A field that is null is
    not changed.
    """

    search_space: str | None = Field(None, max_length=1 << 18)
    search_space_constraints: str | None = Field(
        None, max_length=1 << 18, description="list of conditions; an empty text or list removes them"
    )
    tuner: str | None = Field(
        None,
        max_length=1 << 18,
        description="a tuner, or a configuration with the field tuner; its relative paths start at the home "
        "directory of the server's user",
    )


class ConfigProblem(Model):
    """Error or warning about a configuration's text.

    Lines and columns count from 1. They are null if the problem has no place in the text.
    """

    message: str
    field: str | None = Field(description="path of the field, such as tuner.classArgs")
    line: int | None
    column: int | None
    file: str | None = Field(description="file with the problem; null: the text itself")
    valid: list[str] = Field(description="valid values, if they can be listed")
    nearest: str | None = Field(description="valid value that is most similar to the given one")


class ChangedByText(Model):
    problems: list[ConfigProblem] = Field(
        description="errors, each with its field and the line in that field's text; empty: the fields are "
        "changed"
    )


class PlannedParameter(Model):
    name: str
    type: str = Field(
        description="type in the search space, such as choice; empty: only the user's tuner knows it"
    )


class PlannedService(Model):
    """Training service of a planned experiment, and the resources of each of its trials."""

    platform: str
    trial_command: str
    trial_code_directory: str
    machines: list[str] = Field(
        description="machines other than the server's; empty: trials run on the server's machine"
    )
    trial_gpu_number: float | str | None = Field(description="text: how it differs from trial to trial")
    trial_cpu_number: float | str | None = Field(description="text: how it differs from trial to trial")
    trial_memory_size: int | str | None = Field(description="MiB; text: how it differs from trial to trial")
    code_files: int | None = Field(
        description="number of files and folders that are copied to machines; null: no copy"
    )
    code_size: int | None = Field(description="bytes of the copied files, before packing")


class ExperimentPlan(Model):
    """Preview of the experiment that a configuration would start."""

    name: str
    platform: str
    tuner: str
    assessor: str | None
    optimize_mode: str = Field(description="direction in which results are better: maximize or minimize")
    goal_stated: bool = Field(
        description="true: the configuration states the direction of results; false: NNI's default applies"
    )
    limits: LimitsModel
    parameters: list[PlannedParameter]
    parameter_sets: int | None = Field(description="number of different parameter sets; null: unlimited")
    feasible_share: FeasibleShare
    services: list[PlannedService]
    experiment_working_directory: str
    warnings: list[ConfigProblem]


class Validated(Model):
    problems: list[ConfigProblem] = Field(
        description="problems, sorted by file and line; empty: the configuration is valid"
    )
    plan: ExperimentPlan | None = Field(description="null if there are problems")
