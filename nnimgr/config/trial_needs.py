"""Checks of needs of trials that are expressions over their parameters, with sample parameter sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

from nnimgr import search_space as spaces
from nnimgr.config.document import KeyPath
from nnimgr.config.feasibility import names_in, options
from nnimgr.config.model import ExperimentConfig, Member
from nnimgr.config.parameter_sets import initial_sets, is_batch
from nnimgr.config.parsing import Reading
from nnimgr.config.problems import ConfigError
from nnimgr.constraints import Constraints
from nnimgr.expressions import ExpressionError
from nnimgr.needs import FIELDS, NeedExpression, ParameterMissing, is_expression
from training_services.base import JobRejected, TrialJobSpec, memory_text
from training_services.placement.needs import Wants
from training_services.platform import describe
from trial_keeper.machine.capacity import capacity

__all__ = ["check_needs", "refuse_needs", "sample_sets", "sample_wants"]

_SETS = 200
_DRAWS = 2_000  # most sets that are drawn to find _SETS sets that meet the constraints


def check_needs(reading: Reading, config: ExperimentConfig, *, space_is_valid: bool) -> None:
    """Report expressions for needs whose names or values are not valid.

    ``space_is_valid``: False if only the user's tuner knows the format of the search space. Then names and
    values are checked when a trial is submitted.
    """
    expressions = list(_expressions(config))
    if not expressions or not space_is_valid:
        return
    added, sets = _added(config), sample_sets(config)
    names = {**names_in(config.search_space, batch=is_batch(config)), **{name: {} for name in added}}
    for path, field, text in expressions:
        try:
            expression = NeedExpression(field, text, names)
        except ExpressionError as error:
            reading.fault(path, str(error), nearest=error.nearest)
            continue
        _check_values(reading, config, expression, path, sets, known_later=bool(added))


def refuse_needs(config: ExperimentConfig) -> None:
    """Raise ConfigError if expressions for needs do not fit the search space."""
    reading = Reading()
    try:
        spaces.validate(config.search_space)
    except spaces.SearchSpaceError:
        return
    check_needs(reading, config, space_is_valid=True)
    if reading.problems:
        raise ConfigError(reading.problems)


def sample_sets(config: ExperimentConfig) -> Sequence[Any]:
    """Return the initial parameter sets, and sets drawn from the search space, always the same ones."""
    constraints = Constraints(config.search_space_constraints or ())
    if is_batch(config):
        drawn: Iterator[Any] = iter(options(config.search_space))
    else:
        space, rng = spaces.parse(config.search_space), Random(0)
        drawn = (spaces.sample(space, rng) for _ in range(_DRAWS))
    return [*initial_sets(config, 0), *islice(filter(constraints.feasible, drawn), _SETS)]


def sample_wants(member: Member) -> Wants:
    """Return what a trial needs; if that differs from trial to trial: what a trial of a sample set needs."""
    wants = Wants(member.job_gpu_number, member.job_cpu_number, member.job_memory_size)
    if member.own_needs is None:
        return wants
    try:
        parameters = json.dumps(sample_sets(member.config)[0])
        job = TrialJobSpec(
            id="", trial_id="", attempt=1, sequence=0, parameter_text=f'{{"parameters": {parameters}}}'
        )
        return wants._replace(own=member.own_needs).of_job(job)
    except (spaces.SearchSpaceError, IndexError, JobRejected):
        return wants


def _check_values(
    reading: Reading,
    config: ExperimentConfig,
    expression: NeedExpression,
    path: KeyPath,
    sets: Sequence[Any],
    *,
    known_later: bool,
) -> None:
    """Report a parameter set for which the expression has no valid value, or a value that is too large.

    ``known_later``: the tuner adds parameters to those of the search space.
    """
    largest = 0.0
    for parameters in sets:
        try:
            largest = max(largest, expression.of(parameters))
        except ParameterMissing as error:
            if known_later:
                continue
            reading.fault(path, str(error))
            return
        except ExpressionError as error:
            reading.fault(path, str(error))
            return
    if all(describe(member.service).beside_server for member in config.members):
        here = capacity("/")
        if expression.field == "trialCpuNumber" and largest > here["cpus"]:
            has = f"{here['cpus']:g}"
            reading.fault(path, f"asks for up to {largest:g} CPUs, but this machine has {has}")
        if expression.field == "trialMemorySize" and largest > here["memory"]:
            has = memory_text(here["memory"])
            reading.fault(path, f"asks for up to {memory_text(largest)}, but this machine has {has}")


def _expressions(config: ExperimentConfig) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield the path, the field and the text of each need that is an expression."""
    several = config.platform == "hybrid"
    top = {}
    for number, member in enumerate(config.members):
        at: KeyPath = ("trainingService", number) if several else ("trainingService",)
        for field in FIELDS:
            value = member.said(field)
            if not is_expression(value):
                continue
            if field in member.overrides:
                yield (*at, field), field, value
            else:
                top[field] = value
    yield from (((field,), field, value) for field, value in top.items())


def _added(config: ExperimentConfig) -> Sequence[str]:
    """Return the parameters that the tuner adds to those of the search space, such as a budget."""
    tuner = config.tuner.builtin("tuner")
    return () if tuner is None else tuner.adds
