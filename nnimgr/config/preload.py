"""The field ``preload``: modules that are imported once on each machine, so that trials start faster."""

from __future__ import annotations

import os
import re
import shlex

from nnimgr.config.model import ExperimentConfig, Member
from nnimgr.config.parsing import Reading
from training_services import registry
from training_services.base import Preload

__all__ = ["check_preload", "preload_of"]

_AT = ("preload",)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_preload(reading: Reading, config: ExperimentConfig | None) -> None:
    """Report modules that cannot be preloaded, and an experiment whose trials cannot use them."""
    if config is None or not config.preload:
        return
    for number, module in enumerate(config.preload):
        if _MODULE.fullmatch(module) is None:
            reading.fault((*_AT, number), f'must be the name of a Python module, not "{module}"')
    if config.shared_storage is not None:
        reading.fault(_AT, "cannot be used together with sharedStorage")
    for member in config.members:
        if registry.hosts_class(member.platform) is None:
            reading.fault(
                _AT, f'cannot be used on the platform "{member.platform}": its trials share no process'
            )
        elif _target(member.job_command) is None:
            reading.fault(
                _AT,
                "needs a Python function or class as the trial: trialCommand must be "
                f'"python3 -m nni.run FILE.py:NAME", and nothing else, not "{member.job_command}"',
            )


def preload_of(member: Member) -> Preload | None:
    """Return the modules to import before the trials of this training service; None if there are none."""
    modules = member.config.preload
    target = _target(member.job_command) if modules else None
    return None if not modules or target is None else Preload(modules=tuple(modules), target=target)


def _target(command: str) -> str | None:
    """Return FILE:NAME of the function or class that the command runs; None if it runs anything else."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    is_plain = len(words) == 4 and words[1:3] == ["-m", "nni.run"]
    return words[3] if is_plain and os.path.basename(words[0]).startswith("python") else None
