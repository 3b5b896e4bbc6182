"""What is placed and where: what a job needs, what a machine has, and who holds what of it. Plain values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from training_services.base import JobRejected

__all__ = [
    "Capacity",
    "Gpu",
    "GpuProcess",
    "GpuReading",
    "Holding",
    "Host",
    "Need",
    "TooLarge",
    "Waits",
    "all_of",
    "cpus_text",
    "gpus_text",
    "memory_text",
    "trial_text",
]


class GpuProcess(NamedTuple):
    """A process that computes on a GPU; ``job_id`` None: it is no trial's."""

    pid: int
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as it was read. ``memory``: MiB in use that none of the processes accounts for."""

    index: int
    memory: int = 0
    processes: tuple[GpuProcess, ...] = ()


class GpuReading(NamedTuple):
    """The GPUs of a host; ``trouble``: why they cannot be read, one sentence."""

    gpus: tuple[Gpu, ...]
    trouble: str | None = None


class Capacity(NamedTuple):
    """What a machine has in all: CPUs, and MiB of memory; ``disk``: MiB that were free where keepers work."""

    cpus: float
    memory: int
    disk: int | None = None


class TooLarge(JobRejected):
    """The machine can never grant what a job asks for. ``has``: how much it has of that."""

    def __init__(self, wanted: str, host: Host, has: str, *, size: float) -> None:
        super().__init__(f"The trial asks for {wanted}, but {host.name} has {has}.")
        self.wanted, self.host, self.has, self.size = wanted, host, has, size

    def of(self, machines: int) -> JobRejected:
        """The same, where this is the largest of so many machines that cannot."""
        if machines == 1:
            return self
        name = self.host.name
        return JobRejected(
            f"The trial asks for {self.wanted}, but the largest of its {machines} machines, {name}, "
            f"has {self.has}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine and what an experiment may use of it. ``name`` stands in sentences: "this machine"."""

    id: str
    name: str
    gpu_indices: tuple[int, ...] | None = None  # None: all
    use_active_gpu: bool = False
    max_jobs_per_gpu: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a job asks for. ``gpus`` None: nothing, and its environment is left alone; 0: no GPU at all.

    ``cpus`` and ``memory`` (MiB) are counted against what the machine has; 0: whatever there is.
    """

    experiment_id: str
    job_id: str
    gpus: float | None
    cpus: float = 0
    memory: int = 0

    @property
    def whole_gpus(self) -> int:
        return math.ceil(self.gpus or 0)

    @property
    def nothing(self) -> bool:
        """Whether any machine will do at any time."""
        return not (self.gpus or self.cpus or self.memory)

    def share(self, host: Host) -> float:
        """How much of each of its GPUs the job takes."""
        if self.gpus and self.gpus < 1:
            return self.gpus
        return 1 / host.max_jobs_per_gpu

    def on(self, host: Host, gpus: tuple[int, ...], *, kept: bool = False) -> Holding:
        """What the job takes of a host on which it gets these GPUs."""
        return Holding(
            experiment_id=self.experiment_id,
            job_id=self.job_id,
            gpus=gpus,
            share=self.share(host),
            cpus=self.cpus,
            memory=self.memory,
            kept=kept,
        )

    @property
    def gpus_text(self) -> str:
        gpus = self.gpus or 0
        return f"{gpus:g} of a GPU" if 0 < gpus < 1 else gpus_text(self.whole_gpus)

    def __str__(self) -> str:
        wanted = [self.gpus_text] if self.gpus else []
        wanted += [cpus_text(self.cpus)] if self.cpus else []
        wanted += [f"{memory_text(self.memory)} of memory"] if self.memory else []
        return all_of(wanted) if wanted else "a place"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A job holds this share of each of these GPUs of a host, and so much else of it.

    ``kept``: it waits, they are kept for it.
    """

    experiment_id: str
    job_id: str
    gpus: tuple[int, ...]
    share: float = 1.0
    cpus: float = 0
    memory: int = 0
    kept: bool = False

    def weight(self, capacity: Capacity | None) -> float:
        """How much it is: GPUs, or the part of a machine that nobody else can use, whichever is more."""
        gpus = self.share * len(self.gpus)
        if capacity is None:
            return max(gpus, 1.0 if self.cpus or self.memory else 0.0)
        return max(gpus, self.cpus / capacity.cpus, self.memory / capacity.memory)


@dataclass(frozen=True, slots=True)
class Waits:
    """The job cannot be placed at present; ``reason`` is one sentence, ``behind`` one for those behind it."""

    reason: str
    behind: str | None = None

    def told(self, *, first: bool) -> str:
        return self.reason if first or self.behind is None else self.behind


def trial_text(job_id: str) -> str:
    experiment_id, trial_id, _ = job_id.rsplit("-", 2)
    return f"experiment {experiment_id} trial {trial_id}"


def all_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def gpus_text(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def cpus_text(number: float) -> str:
    return "1 CPU" if number == 1 else f"{number:g} CPUs"


def memory_text(mib: float) -> str:
    return f"{mib / 1024:.4g} GB" if mib >= 1024 else f"{mib:g} MB"
