"""Which GPUs a job gets, and why it has to wait. ``place`` is pure.

The ``HostLedger`` is what all experiments of a server share: what the keepers have read of each host's GPUs,
and which of them is held by which job. It lives in memory; who holds what is rebuilt from the live jobs of
all experiments before any GPU is given away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from training_services.base import JobRejected

__all__ = ["Gpu", "GpuProcess", "GpuReading", "Holding", "Host", "HostLedger", "Need", "Waits", "place"]

ACTIVE_MIB = 1024  # memory that no process accounts for: above it somebody computes whom we cannot see
MOST_NAMED = 16  # GPUs in one sentence
_ROUNDING = 0.001  # three thirds are a whole


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
    """What a job asks for. ``gpus`` None: nothing, and its environment is left alone; 0: no GPU at all."""

    experiment_id: str
    job_id: str
    gpus: float | None

    @property
    def whole_gpus(self) -> int:
        return math.ceil(self.gpus or 0)

    def share(self, host: Host) -> float:
        """How much of each of its GPUs the job takes."""
        if self.gpus and self.gpus < 1:
            return self.gpus
        return 1 / host.max_jobs_per_gpu

    def __str__(self) -> str:
        gpus = self.gpus or 0
        return f"{gpus:g} of a GPU" if 0 < gpus < 1 else _gpus(self.whole_gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A job holds this share of each of these GPUs of a host."""

    experiment_id: str
    job_id: str
    gpus: tuple[int, ...]
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Waits:
    """The job cannot be placed at present; ``reason`` is one sentence, ``behind`` one for those behind it."""

    reason: str
    behind: str | None = None

    def told(self, *, first: bool) -> str:
        return self.reason if first or self.behind is None else self.behind


class _Slot(NamedTuple):
    """A GPU as a job finds it: what is taken of it, and by whom."""

    gpu: Gpu
    taken: float
    holders: list[Holding]
    others: list[str]


def place(
    need: Need,
    host: Host,
    reading: GpuReading | None,
    held: Sequence[Holding],
    *,
    over: Collection[str] = (),
    left: Collection[int] = (),
    gone: Collection[int] = (),
) -> tuple[int, ...] | Waits:
    """Choose GPUs of the host for the job: the least used ones, then by index.

    ``reading`` None: nothing is known yet. ``over``: jobs that have ended; what the reading shows of them was
    so before. ``left``: GPUs that such jobs had then. ``gone``: GPUs that were there once. Raises JobRejected
    if what the experiment may use of the host can never do.
    """
    wanted = need.whole_gpus
    if wanted == 0:
        return ()
    if host.gpu_indices is not None and wanted > len(host.gpu_indices):
        allowed = f"gpuIndices allows {len(host.gpu_indices)} of {host.name}"
        raise JobRejected(f"The trial asks for {_gpus(wanted)}, but {allowed}.")
    behind = _behind(need, host)
    if reading is None:
        return Waits(f"waits for {need} until the GPUs of {host.name} have been read", behind)
    if reading.trouble is not None:
        return Waits(f"waits for {need} on {host.name}, whose GPUs cannot be read: {reading.trouble}", behind)
    slots = [
        _slot(gpu, held, over, left)
        for gpu in reading.gpus
        if host.gpu_indices is None or gpu.index in host.gpu_indices
    ]
    share = need.share(host)
    free = [
        slot
        for slot in slots
        if (host.use_active_gpu or not slot.others) and slot.taken + share <= 1 + _ROUNDING
    ]
    if len(free) >= wanted:
        free.sort(key=lambda slot: (slot.taken, len(slot.others), slot.gpu.memory, slot.gpu.index))
        return tuple(sorted(slot.gpu.index for slot in free[:wanted]))
    indices = {gpu.index for gpu in reading.gpus}
    missing = [f"GPU {index} has vanished" for index in sorted(set(gone) - indices)]
    missing += [
        f"there is no GPU {index}, which gpuIndices names"
        for index in host.gpu_indices or ()
        if index not in indices and index not in gone
    ]
    return Waits(f"waits for {need} on {host.name}{_why(wanted, slots, free, missing, host)}", behind)


def _slot(gpu: Gpu, held: Sequence[Holding], over: Collection[str], left: Collection[int]) -> _Slot:
    holders = [holding for holding in held if gpu.index in holding.gpus]
    holding_jobs = {holding.job_id for holding in holders}
    others = dict.fromkeys(
        f"process {process.pid}" if process.job_id is None else _trial(process.job_id)
        for process in gpu.processes
        if process.job_id is None or (process.job_id not in holding_jobs and process.job_id not in over)
    )
    unseen = gpu.memory >= ACTIVE_MIB and not gpu.processes and not holders and gpu.index not in left
    if unseen:
        others[f"programs that cannot be seen, with {gpu.memory} MiB of its memory"] = None
    return _Slot(gpu, sum(holding.share for holding in holders), holders, list(others))


def _why(wanted: int, slots: list[_Slot], free: list[_Slot], missing: list[str], host: Host) -> str:
    told: list[str] = []
    verb = " is used"
    for slot in [slot for slot in slots if slot not in free][:MOST_NAMED]:
        users = [_trial(holding.job_id) for holding in slot.holders]
        users += [] if host.use_active_gpu else slot.others
        told.append(f"GPU {slot.gpu.index}{verb} by {_and(users)}")
        verb = ""
    told += [f"GPU {slot.gpu.index} is free" for slot in free[:MOST_NAMED]]
    if (more := len(slots) - len(told)) > 0:
        told.append(f"and {more} more")
    told += missing
    has = ""
    if wanted > len(slots) and not missing:
        has = f", which has {len(slots) or 'none'}"
    return has + (": " + ", ".join(told) if told else "")


def _behind(need: Need, host: Host) -> str:
    return f"waits for {need} on {host.name}, behind other trials of its experiment"


def _trial(job_id: str) -> str:
    experiment_id, trial_id, _ = job_id.rsplit("-", 2)
    return f"experiment {experiment_id} trial {trial_id}"


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


@dataclass(slots=True)
class _Machine:
    """What is known of one host."""

    held: dict[str, Holding] = field(default_factory=dict)  # by job
    readings: dict[object, GpuReading] = field(default_factory=dict)  # by who has read, the newest last
    seen: set[int] = field(default_factory=set)  # GPUs that were ever there
    ended: set[str] = field(default_factory=set)  # jobs that the last reading may still show
    ended_since: set[str] = field(default_factory=set)  # after it
    left_since: set[int] = field(default_factory=set)  # GPUs that they held

    @property
    def reading(self) -> GpuReading | None:
        return next(reversed(self.readings.values()), None)

    @property
    def gone(self) -> set[int]:
        reading = self.reading
        if reading is None or reading.trouble is not None:
            return set()
        return self.seen - {gpu.index for gpu in reading.gpus}

    def read(self, owner: object, reading: GpuReading) -> None:
        self.readings.pop(owner, None)
        self.readings[owner] = reading
        self.seen.update(gpu.index for gpu in reading.gpus)
        shown = {process.job_id for gpu in reading.gpus for process in gpu.processes}
        self.ended = {job_id for job_id in self.ended if job_id in shown} | self.ended_since
        self.ended_since, self.left_since = set(), set()

    def release(self, holding: Holding) -> None:
        self.ended_since.add(holding.job_id)
        self.left_since.update(holding.gpus)


@dataclass(frozen=True, slots=True)
class _Listener:
    experiment_id: str
    freed: Callable[[], None]


@dataclass(slots=True)
class HostLedger:
    """Who holds which GPU of which host, over all experiments of the server.

    A server that reopens experiments calls ``expect`` for each of them before it opens the first: until all
    have submitted their jobs again (``rebuilt``), no GPU is given away.
    """

    _machines: dict[str, _Machine] = field(default_factory=dict)
    _expected: dict[str, None] = field(default_factory=dict)  # experiments, in order
    _listeners: dict[object, _Listener] = field(default_factory=dict)
    _grants: dict[str, int] = field(default_factory=dict)  # experiment -> number of its last grant
    _granted: int = 0

    def expect(self, experiment_ids: Iterable[str]) -> None:
        """These experiments are about to be opened and may hold GPUs."""
        self._expected.update(dict.fromkeys(experiment_ids))

    def rebuilt(self, experiment_id: str) -> None:
        """The experiment has submitted its jobs again, or will not be opened after all."""
        if experiment_id in self._expected:
            del self._expected[experiment_id]
            if not self._expected:
                self._notify()

    def listen(self, owner: object, freed: Callable[[], None], *, experiment_id: str) -> None:
        """Call ``freed`` when something may have become free. Replaces the owner's listener."""
        self._listeners[owner] = _Listener(experiment_id, freed)

    def ignore(self, owner: object) -> None:
        """The owner wants to hear nothing more, and keeps its readings up to date no longer."""
        self._listeners.pop(owner, None)
        for machine in self._machines.values():
            machine.readings.pop(owner, None)

    def read(self, host_id: str, owner: object, reading: GpuReading) -> None:
        """The GPUs of the host as a keeper of the owner has just read them; it tells every change."""
        self._machine(host_id).read(owner, reading)
        self._notify()

    def trouble(self, host: Host) -> str | None:
        """What is wrong with the host's GPUs, as one sentence."""
        machine = self._machine(host.id)
        reading = machine.reading
        if reading is not None and reading.trouble is not None:
            return f"the GPUs of {host.name} cannot be read: {reading.trouble}"
        if not machine.gone:
            return None
        names = _and([f"GPU {index}" for index in sorted(machine.gone)])
        users = [_trial(job.job_id) for job in machine.held.values() if machine.gone & set(job.gpus)]
        of = f"; {_and(users)} had been given what is gone" if users else ""
        return f"{names} of {host.name} {'has' if len(machine.gone) == 1 else 'have'} vanished{of}"

    def check(self, need: Need, host: Host) -> None:
        """Raises JobRejected if the host can never grant what the job needs."""
        place(need, host, None, ())

    def place(self, need: Need, host: Host) -> tuple[int, ...] | Waits:
        """Choose and hold GPUs for the job. Raises JobRejected."""
        if not need.whole_gpus:
            return ()
        if self._expected:
            self.check(need, host)
            reason = f"waits until it is known which GPUs experiment {', '.join(self._expected)} holds"
            return Waits(reason, _behind(need, host))
        machine = self._machine(host.id)
        chosen = place(
            need,
            host,
            machine.reading,
            list(machine.held.values()),
            over=machine.ended | machine.ended_since,
            left=machine.left_since,
            gone=machine.gone,
        )
        if isinstance(chosen, tuple):
            self.hold(need, host, chosen)
            self._granted += 1
            self._grants[need.experiment_id] = self._granted
        return chosen

    def hold(self, need: Need, host: Host, gpus: tuple[int, ...]) -> None:
        """The job holds these GPUs, whoever else does."""
        if gpus:
            self._machine(host.id).held[need.job_id] = Holding(
                experiment_id=need.experiment_id, job_id=need.job_id, gpus=gpus, share=need.share(host)
            )

    def release(self, host_id: str, job_id: str) -> None:
        """The job holds nothing any more, and nothing of it runs."""
        machine = self._machine(host_id)
        holding = machine.held.pop(job_id, None)
        if holding is not None:
            machine.release(holding)
            self._notify()

    def _machine(self, host_id: str) -> _Machine:
        return self._machines.setdefault(host_id, _Machine())

    def _notify(self) -> None:
        """Those who hold least are asked first; of equal ones, who was given something longest ago."""
        holds: dict[str, float] = {}
        for machine in self._machines.values():
            for holding in machine.held.values():
                amount = holding.share * len(holding.gpus)
                holds[holding.experiment_id] = holds.get(holding.experiment_id, 0.0) + amount

        def turn(listener: _Listener) -> tuple[float, int]:
            name = listener.experiment_id
            return holds.get(name, 0.0), self._grants.get(name, 0)

        for listener in sorted(self._listeners.values(), key=turn):
            listener.freed()
