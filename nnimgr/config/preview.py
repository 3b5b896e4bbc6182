"""What a configuration would start, without starting anything: the answer of a dry run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnimgr.config.model import ExperimentConfig, Member
from nnimgr.search_space import Choice, Nested, Numeric, ParameterType, SearchSpaceError, Space, parse
from training_services.base import ServiceUnavailable

__all__ = ["MemberPreview", "Preview", "parameter_sets", "preview"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPreview:
    """One training service. ``gpus``, ``cpus`` and ``memory`` (MiB): of each trial; None: not said.

    ``code_files`` and ``code_size`` (bytes): of what other machines get a copy of; None: trials run in the
    directory itself, or there is a ``trouble`` with it.
    """

    platform: str
    command: str
    code_directory: Path
    machines: tuple[str, ...]
    gpus: float | None
    cpus: float | None
    memory: int | None
    code_files: int | None = None
    code_size: int | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """``parameters``: name and type of each; ``parameter_sets``: how many, None: without end or unknown."""

    config: ExperimentConfig
    parameters: tuple[tuple[str, str], ...]
    parameter_sets: int | None
    members: tuple[MemberPreview, ...]


def preview(config: ExperimentConfig) -> Preview:
    """Blocks: it looks at the code that would be sent to other machines."""
    return Preview(
        config=config,
        parameters=tuple((name, _type_of(spec)) for name, spec in config.search_space.items()),
        parameter_sets=parameter_sets(config.search_space),
        members=tuple(_member(member) for member in config.members),
    )


def parameter_sets(plain: Any) -> int | None:
    """How many different parameter sets there are; None if the space is not finite (or not NNI's)."""
    try:
        count = _sets_of_space(parse(plain))
        return None if math.isinf(count) else int(count)
    except (SearchSpaceError, OverflowError):  # more than any float
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
    """A user's own tuner may read a space in its own way, so that there is none."""
    return str(spec.get("_type", "")) if isinstance(spec, Mapping) else ""


def _machines(member: Member) -> tuple[str, ...]:
    image: str | None = getattr(member.service, "image", None)
    if member.platform == "kubernetes" and image is not None:
        return (f"pods of {image}",)
    return tuple(machine.title for machine in getattr(member.service, "machine_list", ()))


def _member(member: Member) -> MemberPreview:
    files, size, trouble = None, None, None
    if member.platform in ("remote", "kubernetes") and getattr(member.service, "trial_code", None) is None:
        from training_services.code import measure_code

        try:
            files, size = measure_code(member.job_directory, member.config.experiment_working_directory)
        except ServiceUnavailable as error:
            trouble = str(error)
    return MemberPreview(
        platform=member.platform,
        command=member.job_command,
        code_directory=member.job_directory,
        machines=_machines(member),
        gpus=member.job_gpu_number,
        cpus=member.job_cpu_number,
        memory=member.job_memory_size,
        code_files=files,
        code_size=size,
        trouble=trouble,
    )
