"""Resources of one machine, the jobs that hold them, and whether another job fits beside these jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from training_services.placement.fit import keep, place
from training_services.placement.needs import (
    Capacity,
    GpuReading,
    Holding,
    Host,
    Need,
    Waits,
    all_of,
    trial_text,
)

__all__ = ["HostUse", "Machine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """Snapshot of a machine: its capacity, its last GPU reading and the jobs on it.

    ``held`` has the resources of the jobs that hold GPUs, CPUs or memory, by job id.
    """

    capacity: Capacity | None
    reading: GpuReading | None
    jobs: frozenset[str]
    held: Mapping[str, Holding]


@dataclass(slots=True)
class Machine:
    """Resources of one machine, and the jobs that hold them."""

    capacity: Capacity | None = None
    # all jobs on the machine, also those that hold no GPU, CPU or memory
    jobs: set[str] = field(default_factory=set)
    # job -> the GPUs, CPUs and memory that it holds; only for jobs that hold any
    held: dict[str, Holding] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)  # job -> weight of what it holds, in millionths
    # last GPU reading that each experiment's keeper has reported, the newest reading last
    readings: dict[object, GpuReading] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)  # indices of all GPUs that were ever read
    # jobs that have ended, although the last GPU reading may still show their processes
    ended: set[str] = field(default_factory=set)
    ended_since: set[str] = field(default_factory=set)  # jobs that have ended since the last reading
    left_since: set[int] = field(default_factory=set)  # GPUs that those ended jobs held
    # job -> what it has held, from its end until the core has heard of the end
    leaving: dict[str, Holding] = field(default_factory=dict)

    @property
    def reading(self) -> GpuReading | None:
        return next(reversed(self.readings.values()), None)

    @property
    def gone(self) -> set[int]:
        reading = self.reading
        if reading is None or reading.trouble is not None:
            return set()
        return self.seen - {gpu.index for gpu in reading.gpus}

    @property
    def load(self) -> float:
        """Number of jobs per CPU."""
        return len(self.jobs) / (1.0 if self.capacity is None else self.capacity.cpus)

    def use(self) -> HostUse:
        """Return a snapshot of the resources and of the jobs."""
        return HostUse(
            capacity=self.capacity,
            reading=self.reading,
            jobs=frozenset(self.jobs),
            held=dict(self.held),
        )

    def read(self, owner: object, reading: GpuReading) -> None:
        self.readings.pop(owner, None)
        self.readings[owner] = reading
        self.seen.update(gpu.index for gpu in reading.gpus)
        shown = {process.job_id for gpu in reading.gpus for process in gpu.processes}
        self.ended = {job_id for job_id in self.ended if job_id in shown} | self.ended_since
        self.ended_since, self.left_since = set(), set()

    def leave_all(self, experiment_id: str) -> bool:
        """Forget what ended jobs of the experiment have held, because its core hears of no more ends. Return
        False if there are none.
        """
        jobs = [each.job_id for each in self.leaving.values() if each.experiment_id == experiment_id]
        for job_id in jobs:
            del self.leaving[job_id]
        return bool(jobs)

    def release(self, holding: Holding) -> None:
        if holding.gpus:
            self.ended_since.add(holding.job_id)
            self.left_since.update(holding.gpus)

    def trouble(self, host: Host) -> str | None:
        """Return a sentence that says what is wrong with the GPUs, or None if they work."""
        reading = self.reading
        if reading is not None and reading.trouble is not None:
            return f"the GPUs of {host.name} cannot be read: {reading.trouble}"
        if not self.gone:
            return None
        names = all_of([f"GPU {index}" for index in sorted(self.gone)])
        users = [trial_text(job.job_id) for job in self.held.values() if self.gone & set(job.gpus)]
        of = f" (used by {all_of(users)})" if users else ""
        return f"{names} of {host.name} {'has' if len(self.gone) == 1 else 'have'} vanished{of}"

    def place(
        self, need: Need, host: Host, held: Sequence[Holding], *, leaving: Collection[Holding] = ()
    ) -> tuple[int, ...] | Waits:
        """Choose GPUs for the job beside the resources in ``held``, or return why the job must wait.

        ``leaving``: what jobs hold that count as ended already. Raises JobRejected.
        """
        return place(
            need,
            host,
            self.reading,
            held,
            capacity=self.capacity,
            over=self._over(leaving),
            left=self._left(leaving),
            gone=self.gone,
        )

    def keep(
        self, need: Need, host: Host, held: Sequence[Holding], *, leaving: Collection[Holding] = ()
    ) -> Holding | None:
        """Return the resources to keep for the waiting job beside those in ``held``, or None if they cannot
        be kept. ``leaving``: what jobs hold that count as ended already.
        """
        return keep(
            need,
            host,
            self.reading,
            held,
            capacity=self.capacity,
            over=self._over(leaving),
            left=self._left(leaving),
        )

    def _over(self, leaving: Collection[Holding]) -> set[str]:
        return self.ended | self.ended_since | {each.job_id for each in leaving}

    def _left(self, leaving: Collection[Holding]) -> set[int]:
        return self.left_since.union(*(each.gpus for each in leaving))
