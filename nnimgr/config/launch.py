"""How the processes of trials are started: the fields ``preload``, ``resident`` and ``gang``."""

from __future__ import annotations

import ast
import os
import re
import shlex
from pathlib import Path

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from nnimgr.config.document import KeyPath
from nnimgr.config.gang import GangConfig
from nnimgr.config.model import ExperimentConfig, Member
from nnimgr.config.parsing import Reading
from training_services import registry
from training_services.base import Preload
from training_services.platform import describe

__all__ = ["check_launch", "preload_of"]

_PRELOAD, _RESIDENT, _GANG = ("preload",), ("resident",), ("gang",)
_LAUNCHERS = ("torchrun", "mpirun", "mpiexec", "deepspeed", "accelerate")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_launch(reading: Reading, config: ExperimentConfig | None) -> None:
    """Report modules that cannot be preloaded, and a resident class and a gang that cannot be used."""
    if config is not None and config.preload:
        _check_preload(reading, config, config.preload)
    if config is not None and config.resident:
        _check_resident(reading, config)
    if config is not None and config.gang is not None:
        _check_gang(reading, config)


def _check_preload(reading: Reading, config: ExperimentConfig, modules: list[str]) -> None:
    for number, module in enumerate(modules):
        if _MODULE.fullmatch(module) is None:
            reading.fault((*_PRELOAD, number), f'must be the name of a Python module, not "{module}"')
    if config.shared_storage is not None:
        reading.fault(_PRELOAD, "cannot be used together with sharedStorage")
    for member in config.members:
        if registry.hosts_class(member.platform) is None:
            reading.fault(
                _PRELOAD, f'cannot be used on the platform "{member.platform}": its trials share no process'
            )
        elif _target(member.job_command) is None:
            reading.fault(
                _PRELOAD,
                "needs a Python function or class as the trial: trialCommand must be "
                f'"python3 -m nni.run FILE.py:NAME", and nothing else, not "{member.job_command}"',
            )


def _check_resident(reading: Reading, config: ExperimentConfig) -> None:
    """Report ``resident`` where no process can run a further trial."""
    if not config.preload:
        reading.fault(
            _RESIDENT,
            "needs preload: give the modules to import, such as preload: [torch], or leave resident out",
        )
        return
    for member in config.members:
        if describe(member.service).sends_code():
            reading.fault(
                _RESIDENT,
                f'cannot be used on the platform "{member.platform}", where each trial has its own copy of '
                "the code: leave resident out",
            )
        elif lack := _lack_of_reset(member):
            reading.fault(
                _RESIDENT,
                f"needs a class with the methods step and reset as the trial, and {lack}: write "
                "reset(self, parameters), or leave resident out",
            )


def _lack_of_reset(member: Member) -> str | None:
    """Return why the trial cannot be reset, as a clause. Return None if it can, or if that is not known."""
    file, _, name = (_target(member.job_command) or "").rpartition(":")
    try:
        tree = ast.parse((Path(member.job_directory) / file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return f"{name} of {file} is a function"
        if isinstance(node, ast.ClassDef) and node.name == name:
            methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
            is_known = not node.bases and not node.keywords and not node.decorator_list
            return None if "reset" in methods or not is_known else f"{name} of {file} has no method reset"
    return None


def _check_gang(reading: Reading, config: ExperimentConfig) -> None:
    """Report a gang together with ``resident``. Warn of a command that starts processes of its own."""
    if config.resident:
        reading.fault(_RESIDENT, "cannot be used together with gang: leave one of them out")
    assert config.gang is not None
    if config.preload and config.gang.roles is not None:
        reading.fault(_PRELOAD, "cannot be used together with gang.roles, which have commands of their own")
    if config.gang.most > 1:
        _check_nodes(reading, config, config.gang)
    else:
        given = {"sameHost": config.gang.same_host, "exitBarrier": config.gang.exit_barrier is not None}
        for name in (name for name, is_given in given.items() if is_given):
            reading.fault((*_GANG, name), "needs nodes or roles: without them, a trial has only one host")
    if config.gang.processes is None:
        return
    for member in config.members:
        launcher = next((word for word in _words(member.job_command) if word in _LAUNCHERS), None)
        if launcher is not None:
            reading.warn(
                _GANG,
                f"each of the processes runs trialCommand, and {launcher} starts further processes: leave "
                f"{launcher} out of trialCommand, or leave gang out",
            )


def _check_nodes(reading: Reading, config: ExperimentConfig, gang: GangConfig) -> None:
    """Report a gang on several hosts that cannot be placed, and what cannot be used together with it."""
    at = (*_GANG, "nodes" if gang.roles is None else "roles")
    if config.multi_phase:
        reading.fault(at, "cannot be used together with multiPhase")
    if len(config.members) > 1:
        reading.fault(at, "cannot be used with several training services: give one")
        return
    (member,) = config.members
    if member.platform != "kubernetes":
        _check_roles_of_machines(reading, gang)
    if member.platform == "local" and not gang.same_host:
        reading.fault(at, "needs several hosts, and platform: local has one. To try it, set sameHost: true")
    elif member.platform == "remote" and not gang.same_host:
        machines = {place.rpartition("@")[2] for place in describe(member.service).places()}
        if len(machines) < gang.least:
            reading.fault(at, f"needs {gang.least} machines, and machineList has {len(machines)}")
    elif member.platform == "kubernetes":
        _check_pods(reading, gang, at, member.service)
    elif member.platform in ("slurm", "ray"):
        if getattr(member.service, "max_allocations", None) is not None:
            reading.fault(at, "cannot be used with maxAllocations: each member has an allocation of its own")
    elif member.platform not in ("local", "remote"):
        reading.fault(
            at,
            f'cannot be used on the platform "{member.platform}": only with remote, kubernetes, slurm and '
            "ray, or with local to try it",
        )


def _check_roles_of_machines(reading: Reading, gang: GangConfig) -> None:
    """Report fields of roles that only pods can have."""
    for name, role in (gang.roles or {}).items():
        for field in ("gpu_number", "cpu_number", "memory_size", "image"):
            if getattr(role, field) is not None:
                reading.fault(
                    (*_GANG, "roles", name, to_camel(field)),
                    "can differ from role to role only on platform: kubernetes",
                )


def _check_pods(reading: Reading, gang: GangConfig, at: KeyPath, service: BaseModel) -> None:
    """Report what is not possible if each member has a pod. ``at``: path of the field with their number."""
    from training_services.kubernetes.config import KubernetesConfig, check_image
    from training_services.kubernetes.manifest import ResourceFault, container_resources
    from training_services.placement.needs import Wants

    assert isinstance(service, KubernetesConfig)
    for name, role in (gang.roles or {}).items():
        try:
            check_image(role.image or service.image)
        except ValueError as error:
            reading.fault((*_GANG, "roles", name, "image"), str(error))
        try:
            container_resources(service, Wants(role.gpu_number, None, None))
        except ResourceFault as error:
            reading.fault((*_GANG, "roles", name, "gpuNumber"), str(error))
    if not service.sizes_each_trial():
        reading.fault(at, "needs a pod of its own for each member: set reuseMode: false")
    if gang.same_host:
        reading.fault((*_GANG, "sameHost"), "is not needed with pods: several may run on one node")


def preload_of(member: Member) -> Preload | None:
    """Return the modules to import before the trials of this training service; None if there are none."""
    modules = member.config.preload
    target = _target(member.job_command) if modules else None
    if not modules or target is None:
        return None
    return Preload(modules=tuple(modules), target=target, resident=bool(member.config.resident))


def _target(command: str) -> str | None:
    """Return FILE:NAME of the function or class that the command runs; None if it runs anything else."""
    words = _words(command)
    is_plain = len(words) == 4 and words[1:3] == ["-m", "nni.run"]
    return words[3] if is_plain and os.path.basename(words[0]).startswith("python") else None


def _words(command: str) -> list[str]:
    """Return the words of a command; none if it is not a command that a shell can read."""
    try:
        return shlex.split(command)
    except ValueError:
        return []
