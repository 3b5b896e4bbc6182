"""Errors in the size of allocations that run many trials, which Slurm and Ray have in common."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from training_services.placement.needs import Wants, cpus_text, gpus_text, memory_text
from training_services.platform import ConfigFault

__all__ = ["Allocations", "faults"]


class Allocations(Protocol):
    """Part of a platform's configuration: what each allocation has. None: not stated. Memory is in MiB."""

    @property
    def cpus(self) -> float | None: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def gpu_number(self) -> int | None: ...
    @property
    def per_trial(self) -> bool: ...


def faults(config: Allocations, wants: Wants) -> Iterator[ConfigFault]:
    """Yield the errors in the size of allocations. ``wants``: resources that each job needs."""
    if config.cpus is not None and wants.cpus is not None and wants.cpus > config.cpus:
        yield _too_small("cpus", cpus_text(config.cpus), "trialCpuNumber", cpus_text(wants.cpus))
    if config.memory is not None and wants.memory is not None and wants.memory > config.memory:
        yield _too_small("memory", memory_text(config.memory), "trialMemorySize", memory_text(wants.memory))
    if config.gpu_number is not None and wants.gpus is not None and wants.gpus > config.gpu_number:
        needed = gpus_text(math.ceil(wants.gpus))
        yield _too_small("gpus", gpus_text(config.gpu_number), "trialGpuNumber", needed)
    if config.gpu_number is not None and wants.gpus is None and wants.own is None and not config.per_trial:
        sentence = (
            "trials that run beside each other would all see the same GPUs: give trialGpuNumber, the number "
            "of GPUs of each trial"
        )
        yield ConfigFault(("gpus",), sentence)


def _too_small(field: str, has: str, needs: str, needed: str) -> ConfigFault:
    return ConfigFault((field,), f"an allocation has {has}, less than the {needed} of {needs}")
