"""Requests and answers about configurations that are not experiments yet."""

from __future__ import annotations

from pydantic import Field

from nnimgr.api.models.base import Model, Request
from nnimgr.api.models.experiments import FeasibleShare, LimitsModel


class ConfigText(Request):
    """A configuration as it stands in an ``exp.yml``, in YAML or JSON."""

    text: str = Field(max_length=1 << 18)
    cwd: str | None = Field(
        None,
        max_length=4096,
        description="absolute; what relative paths in it refer to. Without it the home directory of the "
        "server's user",
    )


class ConfigProblem(Model):
    """Something wrong, or worth a warning. Lines and columns count from 1; null: it has no place there."""

    message: str
    field: str | None = Field(description="a path such as tuner.classArgs")
    line: int | None
    column: int | None
    file: str | None = Field(description="the file that the place is in; null: the text itself")
    valid: list[str] = Field(description="what may stand there, as far as that can be listed")
    nearest: str | None = Field(description="what was probably meant")


class PlannedParameter(Model):
    name: str
    type: str = Field(description="of the search space, such as choice; empty: only the user's tuner knows")


class PlannedService(Model):
    """A training service, and what each trial gets there."""

    platform: str
    trial_command: str
    trial_code_directory: str
    machines: list[str] = Field(description="other machines; none: trials run on the server's")
    trial_gpu_number: float | None
    trial_cpu_number: float | None
    trial_memory_size: int | None = Field(description="MiB")
    code_files: int | None = Field(description="files and folders that machines get a copy of; null: none do")
    code_size: int | None = Field(description="bytes of those, before they are packed")


class ExperimentPlan(Model):
    """What would start."""

    name: str
    platform: str
    tuner: str
    assessor: str | None
    optimize_mode: str = Field(description="maximize or minimize: what best means")
    goal_stated: bool = Field(description="false: the configuration names no goal, NNI's default holds")
    limits: LimitsModel
    parameters: list[PlannedParameter]
    parameter_sets: int | None = Field(description="how many different ones there are; null: without end")
    feasible_share: FeasibleShare
    services: list[PlannedService]
    experiment_working_directory: str
    warnings: list[ConfigProblem]


class Validated(Model):
    problems: list[ConfigProblem] = Field(description="by file and line; none: it can be used")
    plan: ExperimentPlan | None = Field(description="null if there are problems")
