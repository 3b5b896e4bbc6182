"""Types for placing jobs: the needs of a job, the capacity of a machine, and the resources that a job
holds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from training_services.base import ExperimentContext, JobRejected, OwnNeeds, TrialJobSpec, memory_text
from training_services.job_ids import experiment_of_job, trial_of_job

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
    "Wants",
    "all_of",
    "cpus_text",
    "gpus_text",
    "memory_text",
    "trial_text",
]


class GpuProcess(NamedTuple):
    """Process that uses a GPU. ``job_id``: the job that started it; None if no trial started it."""

    pid: int
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """State of a GPU when it was read. ``memory``: MiB in use that belong to none of ``processes``."""

    index: int
    memory: int = 0
    processes: tuple[GpuProcess, ...] = ()


class GpuReading(NamedTuple):
    """States of all GPUs of a machine at one time.

    ``trouble``: a sentence that says why they cannot be read, or None.
    """

    gpus: tuple[Gpu, ...]
    trouble: str | None = None


class Capacity(NamedTuple):
    """Total capacity of a machine: CPUs and MiB of memory. ``disk``: free MiB on the disk that keepers
    use.
    """

    cpus: float
    memory: int
    disk: int | None = None


class TooLarge(JobRejected):
    """Error: a job is rejected because the machine is too small.

    ``wanted``: text that says what the job needs; ``has``: text that says how much the machine has.
    """

    def __init__(self, wanted: str, host: Host, has: str, *, size: float) -> None:
        super().__init__(f"The trial asks for {wanted}, but {host.name} has {has}.")
        self.wanted, self.host, self.has, self.size = wanted, host, has, size

    def of(self, machines: int) -> JobRejected:
        """Return the rejection to raise when all machines are too small and this one (``self``) is the
        largest.

        ``machines``: number of the machines.
        """
        if machines == 1:
            return self
        name = self.host.name
        return JobRejected(
            f"The trial asks for {self.wanted}, but the largest of its {machines} machines, {name}, "
            f"has {self.has}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Machine, and the GPUs that an experiment may use there.

    ``name``: name of the machine in sentences, such as "this machine".
    """

    id: str
    name: str
    gpu_indices: tuple[int, ...] | None = None  # None: all GPUs
    use_active_gpu: bool = False
    max_jobs_per_gpu: int = 1


class Wants(NamedTuple):
    """GPUs, CPUs and MiB of memory that jobs of an experiment need. None: the user gave no number.

    ``own``: functions for the needs that differ from job to job. None: all jobs need the same.
    """

    gpus: float | None
    cpus: float | None
    memory: int | None
    own: OwnNeeds | None = None

    @classmethod
    def of(cls, context: ExperimentContext) -> Wants:
        return cls(
            context.trial_gpu_number, context.trial_cpu_number, context.trial_memory_size, context.own_needs
        )

    def of_job(self, job: TrialJobSpec) -> Wants:
        """Return what this job needs. Raises JobRejected if that is not valid."""
        own = self.own
        if own is None:
            return self
        return Wants(
            self.gpus if own.gpus is None else own.gpus(job),
            self.cpus if own.cpus is None else own.cpus(job),
            self.memory if own.memory is None else own.memory(job),
        )

    def need(self, experiment_id: str, job_id: str, *, line: Hashable = 0, arrival: int = 0) -> Need:
        """Return the need of a job that wants this."""
        return Need(
            experiment_id=experiment_id,
            job_id=job_id,
            gpus=self.gpus,
            cpus=self.cpus or 0,
            memory=self.memory or 0,
            line=line,
            arrival=arrival,
        )

    @property
    def uses_gpus(self) -> bool:
        """True if some jobs may need GPUs."""
        return bool(self.gpus) or (self.own is not None and self.own.gpus is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """GPUs, CPUs and MiB of memory that one job needs.

    ``gpus`` None: no GPU is reserved and the job's environment is not changed; 0: the job sees no GPU.
    ``cpus`` and ``memory`` are subtracted from the machine's capacity; 0: nothing is reserved. ``line``: line
    of jobs of the experiment that need the same. ``arrival``: position of the job among the experiment's
    jobs, in order of their arrival.
    """

    experiment_id: str
    job_id: str
    gpus: float | None
    cpus: float = 0
    memory: int = 0
    line: Hashable = 0
    arrival: int = 0

    @property
    def whole_gpus(self) -> int:
        return math.ceil(self.gpus or 0)

    @property
    def nothing(self) -> bool:
        """True if the job needs no GPU, CPU or memory, so that it fits on any machine at any time."""
        return not (self.gpus or self.cpus or self.memory)

    def times(self, number: int) -> Need:
        """Return the need of so many equal jobs together."""
        gpus = None if self.gpus is None else self.gpus * number
        return replace(self, gpus=gpus, cpus=self.cpus * number, memory=self.memory * number)

    def share(self, host: Host) -> float:
        """Return the share that the job takes of each of its GPUs on this machine, at most 1."""
        if self.gpus and self.gpus < 1:
            return self.gpus
        return 1 / host.max_jobs_per_gpu

    def on(self, host: Host, gpus: tuple[int, ...], *, kept: bool = False) -> Holding:
        """Return the resources that the job holds on a machine that gives it these GPUs."""
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
    """Resources of one machine that a job holds: a ``share`` of each of its GPUs, CPUs, and MiB of memory.

    ``kept``: the job still waits, and the resources are reserved for it.
    """

    experiment_id: str
    job_id: str
    gpus: tuple[int, ...]
    share: float = 1.0
    cpus: float = 0
    memory: int = 0
    kept: bool = False

    def weight(self, capacity: Capacity | None) -> float:
        """Return the number of GPUs held, or the fraction of the machine's CPUs or memory held if it is
        larger.
        """
        gpus = self.share * len(self.gpus)
        if capacity is None:
            return max(gpus, 1.0 if self.cpus or self.memory else 0.0)
        return max(gpus, self.cpus / capacity.cpus, self.memory / capacity.memory)


@dataclass(frozen=True, slots=True)
class Waits:
    """Reason why a job cannot be placed now, as a sentence.

    ``behind``: the sentence for jobs that wait behind this job in the queue; None: the same sentence.
    """

    reason: str
    behind: str | None = None

    def told(self, *, first: bool) -> str:
        return self.reason if first or self.behind is None else self.behind


def trial_text(job_id: str) -> str:
    trial_id, _ = trial_of_job(job_id)
    return f"experiment {experiment_of_job(job_id)} trial {trial_id}"


def all_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def gpus_text(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


def cpus_text(number: float) -> str:
    return "1 CPU" if number == 1 else f"{number:g} CPUs"
