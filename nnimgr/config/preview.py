"""Preview of the experiment that a configuration describes, for a dry run. Nothing is started."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnimgr.config.memory import GrowingMemory
from nnimgr.config.model import ExperimentConfig, Member
from nnimgr.needs import is_expression
from nnimgr.search_space import Choice, Nested, Numeric, ParameterType, SearchSpaceError, Space, parse
from training_services.base import ServiceUnavailable
from training_services.platform import describe

__all__ = ["MemberPreview", "Preview", "parameter_sets", "preview"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPreview:
    """Preview of one training service. ``gpus``, ``cpus``, ``memory`` (MiB): per trial; None if not given.

    Needs that differ from trial to trial are texts: the expression, or how the memory grows.

    ``code_files`` and ``code_size`` (bytes): the trial code that is copied to other machines. They are None
    if trials run in the code directory itself, or if ``trouble`` says what is wrong with the code.
    """

    platform: str
    command: str
    code_directory: Path
    machines: tuple[str, ...]
    gpus: float | str | None
    cpus: float | str | None
    memory: int | str | None
    code_files: int | None = None
    code_size: int | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Preview of an experiment. ``parameters``: name and type of each parameter.

    ``parameter_sets``: number of different parameter sets; None if infinite or unknown.
    """

    config: ExperimentConfig
    parameters: tuple[tuple[str, str], ...]
    parameter_sets: int | None
    members: tuple[MemberPreview, ...]


def preview(config: ExperimentConfig) -> Preview:
    """Return the preview of a configuration. Blocks while it reads the trial code."""
    return Preview(
        config=config,
        parameters=tuple((name, _type_of(spec)) for name, spec in config.search_space.items()),
        parameter_sets=parameter_sets(config.search_space),
        members=tuple(_member(member) for member in config.members),
    )


def parameter_sets(plain: Any) -> int | None:
    """Return the number of different parameter sets in a search space.

    Return None if there are infinitely many, or if the search space is not in NNI's format.
    """
    try:
        count = _sets_of_space(parse(plain))
        return None if math.isinf(count) else int(count)
    except (SearchSpaceError, OverflowError):  # the number is larger than any float
        return None


def _sets_of_space(space: Space) -> float:
    return math.prod(_sets_of_spec(spec) for _, spec in space.parameters)


def _sets_of_spec(spec: Choice | Nested | Numeric) -> float:
    match spec:
        case Choice(options):
            return len(options)
        case Nested(options):
            return sum(_sets_of_space(inner) for _, inner in options)
        case Numeric(type=ParameterType.RANDINT, a=a, b=b):
            return int(b) - int(a)
        case Numeric(type=kind, q=q) if q is not None and not kind.gaussian:
            low, high = round(spec.a / q), round(spec.b / q)
            return len({spec.quantise(k * q) for k in (low, high)}) + max(0, high - low - 1)
        case _:
            return math.inf


def _type_of(spec: Any) -> str:
    """Return the type of a parameter, or "" if the search space is in a user's own format."""
    return str(spec.get("_type", "")) if isinstance(spec, Mapping) else ""


def _varying(member: Member, field: str) -> str | None:
    """Return how a need differs from trial to trial, as a text; None if it is the same for all trials."""
    value = member.said(field)
    if isinstance(value, GrowingMemory):
        return f"{value.start}, {value.factor:g} times as much after a lack of memory, up to {value.limit}"
    return value if is_expression(value) else None


def _member(member: Member) -> MemberPreview:
    files, size, trouble = None, None, None
    if describe(member.service).sends_code():
        from training_services.code import measure_code

        try:
            files, size = measure_code(member.job_directory, member.config.experiment_working_directory)
        except ServiceUnavailable as error:
            trouble = str(error)
    return MemberPreview(
        platform=member.platform,
        command=member.job_command,
        code_directory=member.job_directory,
        machines=describe(member.service).places(),
        gpus=_varying(member, "trialGpuNumber") or member.job_gpu_number,
        cpus=_varying(member, "trialCpuNumber") or member.job_cpu_number,
        memory=_varying(member, "trialMemorySize") or member.job_memory_size,
        code_files=files,
        code_size=size,
        trouble=trouble,
    )
