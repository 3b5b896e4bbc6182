"""Routes that take configurations as texts: to check one, to create an experiment, or to change one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from nnimgr.api import models
from nnimgr.api.dependencies import ApiParts, Live, Parts, refusals
from nnimgr.api.routing import Router
from nnimgr.config import ConfigError, Loaded, Problem, load_text
from nnimgr.config.change_text import ChangeText, TextField, read_changes
from nnimgr.config.preview import MemberPreview, preview
from nnimgr.core.managing.manager import NewExperiment
from nnimgr.home import HOME_VARIABLE

router = Router(prefix="/api/v1", tags=["experiments"])


@router.post("/validate", responses=refusals(422))
async def validate_config(parts: Parts, wanted: models.ConfigText) -> models.Validated:
    """Check the text of a configuration. Return all problems with their places in the text, or a preview of
    the experiment.

    Nothing is started or written.
    """
    return await asyncio.to_thread(_validated, parts, wanted)


@router.post("/experiments/from-text", status_code=201, responses=refusals(400, 422))
async def create_from_text(parts: Parts, wanted: models.ConfigText) -> models.Created:
    """Create and start an experiment from the text of a configuration.

    The experiment runs in the server's environment, with the server's interpreter.
    """
    config = (await asyncio.to_thread(_load, parts, wanted)).config.canonical()
    space = config.pop("searchSpace")
    new = NewExperiment(config=config, search_space=space, cwd=str(_base(wanted)))
    experiment_id, _ = await parts.manager.create(new)
    return models.Created(id=experiment_id)


@router.post("/experiments/{id}/change-from-text", responses=refusals(404, 409, 422))
async def change_from_text(runner: Live, wanted: models.ChangeTexts) -> models.ChangedByText:
    """Change the search space, its constraints or the tuner of a running experiment, each given as a text.

    All errors are returned with their lines, and nothing is changed if there are any.
    """
    texts: dict[TextField, str | None] = {
        "searchSpace": wanted.search_space,
        "searchSpaceConstraints": wanted.search_space_constraints,
        "tuner": wanted.tuner,
    }
    given = {field: text for field, text in texts.items() if text is not None}
    changes: list[ChangeText] = []
    try:
        changes = await asyncio.to_thread(_read, given)
        await runner.change_config({change.field: change.value for change in changes})
    except ConfigError as error:
        return models.ChangedByText(problems=[_problem(_located(each, changes)) for each in error.problems])
    return models.ChangedByText(problems=[])


def _read(texts: Mapping[TextField, str]) -> list[ChangeText]:
    """Parse the texts that change fields of a configuration. Raise ConfigError if a text is not valid."""
    changes = read_changes(texts, base=Path.home())
    for change in changes:
        try:
            models.sober(change.value)
        except ValueError as error:
            raise ConfigError([Problem(message=f"cannot be stored: {error}", field=change.field)]) from error
    return changes


def _located(problem: Problem, changes: Sequence[ChangeText]) -> Problem:
    own = (change for change in changes if change.concerns(problem))
    change = next(own, None)
    return problem if change is None else change.located(problem)


def _base(wanted: models.ConfigText) -> Path:
    return Path.home() if wanted.cwd is None else Path(os.path.expanduser(wanted.cwd))


def _load(parts: ApiParts, wanted: models.ConfigText) -> Loaded:
    """Parse a configuration's text. Raise ConfigError if it is not valid."""
    environ = {**os.environ, HOME_VARIABLE: str(parts.manager.home.path)}
    loaded = load_text(wanted.text, base=_base(wanted), environ=environ)
    try:
        models.sober(loaded.config.canonical())
    except ValueError as error:
        raise ConfigError([Problem(message=f"the configuration cannot be stored: {error}")]) from error
    return loaded


def _validated(parts: ApiParts, wanted: models.ConfigText) -> models.Validated:
    try:
        loaded = _load(parts, wanted)
    except ConfigError as error:
        return models.Validated(problems=[_problem(problem) for problem in error.problems], plan=None)
    return models.Validated(problems=[], plan=_plan(loaded))


def _problem(problem: Problem) -> models.ConfigProblem:
    return models.ConfigProblem(
        message=problem.message,
        field=problem.field or None,
        line=problem.line,
        column=problem.column,
        file=None if problem.file is None else str(problem.file),
        valid=list(problem.valid),
        nearest=problem.nearest,
    )


def _plan(loaded: Loaded) -> models.ExperimentPlan:
    seen = preview(loaded.config)
    config, limits = seen.config, seen.config.limits()
    warnings = [_problem(warning) for warning in loaded.warnings]
    for member in seen.members:
        if member.trouble is not None:
            trouble = Problem(message=member.trouble, field="trialCodeDirectory")
            warnings.append(_problem(trouble))
    return models.ExperimentPlan(
        name=config.experiment_name or "",
        platform=config.platform,
        tuner=config.tuner.title,
        assessor=config.assessor.title if config.assessor else None,
        optimize_mode=config.optimize_mode,
        goal_stated=config.goal_is_stated,
        limits=models.LimitsModel(
            trial_concurrency=limits.trial_concurrency,
            max_trial_number=limits.max_trial_number,
            max_experiment_duration_s=_seconds(limits.max_experiment_duration),
            max_trial_duration_s=_seconds(limits.max_trial_duration),
        ),
        parameters=[models.PlannedParameter(name=name, type=kind) for name, kind in seen.parameters],
        parameter_sets=seen.parameter_sets,
        feasible_share=None if loaded.feasibility is None else loaded.feasibility.share,
        services=[_service(member) for member in seen.members],
        experiment_working_directory=str(config.experiment_working_directory),
        warnings=warnings,
    )


def _service(member: MemberPreview) -> models.PlannedService:
    return models.PlannedService(
        platform=member.platform,
        trial_command=member.command,
        trial_code_directory=str(member.code_directory),
        machines=list(member.machines),
        trial_gpu_number=member.gpus,
        trial_cpu_number=member.cpus,
        trial_memory_size=member.memory,
        code_files=member.code_files,
        code_size=member.code_size,
    )


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
