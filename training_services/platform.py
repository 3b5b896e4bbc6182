"""Base class of platforms' configurations: what code that knows no concrete platform has to know of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from pydantic import BaseModel

__all__ = ["ConfigFault", "KeyPath", "PlatformConfig", "describe", "gpu_faults"]

KeyPath = tuple[str | int, ...]  # from the configuration of the platform to a field, as a user writes it


class ConfigFault(NamedTuple):
    """``shared``: the path is of the top level, unless the training service says the field itself.

    ``harmless``: the field is not used, which is no error.
    """

    path: KeyPath
    sentence: str
    shared: bool = False
    harmless: bool = False


class PlatformConfig(BaseModel):
    """A base for platforms' ``CONFIG``. What is here suits a platform that has nothing to say of itself.

    ``beside_server``: its jobs run on the server's machine, so that they cannot lose the server.
    """

    beside_server: ClassVar[bool] = False

    def sends_code(self) -> bool:
        """Check whether ``trialCodeDirectory`` is sent to where the jobs run."""
        return False

    def places(self) -> tuple[str, ...]:
        """Name the machines or pods that jobs run on, for sentences."""
        return ()

    def key_files(self) -> Iterator[tuple[KeyPath, Path]]:
        """Yield the files that keys are read from, with their fields."""
        yield from ()


_NOTHING = PlatformConfig()


def describe(config: BaseModel) -> PlatformConfig:
    """Return what a platform says of itself; a third party's configuration need not say anything."""
    return config if isinstance(config, PlatformConfig) else _NOTHING


def gpu_faults(machine: BaseModel, at: KeyPath, gpus: float | None) -> Iterator[ConfigFault]:
    """Check the GPU fields of one machine, which are at this path, by NNI's rules."""
    per_gpu = getattr(machine, "max_trial_number_per_gpu", 1)
    if per_gpu != 1 and gpus is None:
        yield ConfigFault((*at, "maxTrialNumberPerGpu"), "needs trialGpuNumber")
    if per_gpu != 1 and gpus and gpus < 1:
        yield ConfigFault(
            (*at, "maxTrialNumberPerGpu"),
            f"must be left out: trialGpuNumber {gpus:g}, a part of a GPU, says already how many share one",
        )
    indices: list[int] | None = getattr(machine, "gpu_indices", None)
    if indices is None:
        return
    if not gpus:
        sentence = "not used, since trialGpuNumber is 0 or not given"
        yield ConfigFault((*at, "gpuIndices"), sentence, harmless=True)
    elif gpus > len(indices):
        yield ConfigFault(
            (*at, "gpuIndices"), f"trialGpuNumber asks for {gpus:g}, but here are {len(indices)}"
        )
