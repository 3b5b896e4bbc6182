"""Base class for the configurations of platforms, for code that does not know the concrete platform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from pydantic import BaseModel

__all__ = ["ConfigFault", "KeyPath", "PlatformConfig", "describe", "gpu_faults"]

KeyPath = tuple[str | int, ...]  # path of a field in the platform's section of the configuration


class ConfigFault(NamedTuple):
    """Error in a configuration, with the path of the wrong field.

    ``shared``: the field is one that all training services have, so its path starts at the top level, unless
    the section ``trainingService`` sets it. ``harmless``: only a warning, because the field is not used.
    """

    path: KeyPath
    sentence: str
    shared: bool = False
    harmless: bool = False


class PlatformConfig(BaseModel):
    """Base class for the configurations of platforms. By default, a platform has none of the features below.

    ``shares_storage``: jobs can use ``sharedStorage``. ``beside_server``: jobs run on the server's machine,
    so they cannot lose the connection to it. ``asked``: programs ask for the trials, so the
    platform runs no command. ``makes_allocations``: jobs run in allocations, which the platform makes on
    demand (``training_services.allocations``).
    """

    shares_storage: ClassVar[bool] = False
    makes_allocations: ClassVar[bool] = False
    beside_server: ClassVar[bool] = False
    asked: ClassVar[bool] = False

    def sends_code(self) -> bool:
        """Return True if ``trialCodeDirectory`` is copied to the machines or pods that run the jobs."""
        return False

    def sizes_each_trial(self) -> bool:
        """Return True if each attempt of a trial can get other resources than the attempts before it."""
        return False

    def places(self) -> tuple[str, ...]:
        """Return the names of the machines or pods that jobs run on, for use in sentences."""
        return ()

    def key_files(self) -> Iterator[tuple[KeyPath, Path]]:
        """Yield each file from which a key for a login is read: the field that names it, and its path."""
        yield from ()


_NOTHING = PlatformConfig()


def describe(config: BaseModel) -> PlatformConfig:
    """Return the configuration if it is a PlatformConfig, or else a PlatformConfig with the defaults.

    A third party's configuration may have another base class.
    """
    return config if isinstance(config, PlatformConfig) else _NOTHING


def gpu_faults(machine: BaseModel, at: KeyPath, gpus: float | None) -> Iterator[ConfigFault]:
    """Yield errors in the GPU fields of a machine, whose path in the configuration is ``at``.

    ``gpus``: number of GPUs that each trial needs. The rules are those of NNI.
    """
    per_gpu = getattr(machine, "max_trial_number_per_gpu", 1)
    if per_gpu != 1 and gpus is None:
        yield ConfigFault((*at, "maxTrialNumberPerGpu"), "needs trialGpuNumber")
    if per_gpu != 1 and gpus and gpus < 1:
        yield ConfigFault(
            (*at, "maxTrialNumberPerGpu"),
            f"remove it: trialGpuNumber {gpus:g} already says how many trials share a GPU",
        )
    indices: list[int] | None = getattr(machine, "gpu_indices", None)
    if indices is None:
        return
    if not gpus:
        sentence = "not used, because trialGpuNumber is 0 or not set"
        yield ConfigFault((*at, "gpuIndices"), sentence, harmless=True)
    elif gpus > len(indices):
        yield ConfigFault(
            (*at, "gpuIndices"), f"lists fewer GPUs ({len(indices)}) than trialGpuNumber ({gpus:g})"
        )
