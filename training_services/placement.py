"""Which GPUs a job gets, and why it has to wait. ``place`` is pure.

The ``HostLedger`` is what all experiments of a server share: which GPU of which host is held by which job.
It lives in memory and is rebuilt from the live jobs of all experiments before any GPU is given away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from training_services.base import JobRejected

__all__ = ["Gpu", "Holding", "Host", "HostLedger", "Need", "Waits", "place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """``active``: a process that is not ours computes on it."""

    index: int
    active: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine and what an experiment may use of it. ``name`` stands in sentences: "this machine"."""

    id: str
    name: str
    gpus: tuple[Gpu, ...] = ()
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

    def jobs_per_gpu(self, host: Host) -> int:
        """How many jobs like this one may share a GPU of the host."""
        shared = int(1 / self.gpus) if self.gpus and self.gpus < 1 else 1
        return max(host.max_jobs_per_gpu, shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A job holds these GPUs of a host, and shares each with at most ``jobs_per_gpu - 1`` others."""

    experiment_id: str
    job_id: str
    gpus: tuple[int, ...]
    jobs_per_gpu: int = 1


@dataclass(frozen=True, slots=True)
class Waits:
    """The job cannot be placed at present; ``reason`` is one sentence."""

    reason: str


def place(need: Need, host: Host, held: Sequence[Holding]) -> tuple[int, ...] | Waits:
    """Choose GPUs of the host for the job: the least shared ones, then by index.

    Raises JobRejected if the host can never grant them.
    """
    wanted = need.whole_gpus
    if wanted == 0:
        return ()
    usable = [gpu for gpu in host.gpus if host.gpu_indices is None or gpu.index in host.gpu_indices]
    if wanted > len(usable):
        raise JobRejected(_never(wanted, usable, host))
    sharing: dict[int, list[Holding]] = {gpu.index: [] for gpu in usable}
    for holding in held:
        for index in holding.gpus:
            if index in sharing:
                sharing[index].append(holding)
    limit = need.jobs_per_gpu(host)
    free = [
        gpu.index
        for gpu in usable
        if (host.use_active_gpu or not gpu.active)
        and len(sharing[gpu.index]) < min([limit, *(holding.jobs_per_gpu for holding in sharing[gpu.index])])
    ]
    if len(free) >= wanted:
        return tuple(sorted(sorted(free, key=lambda index: (len(sharing[index]), index))[:wanted]))
    return Waits(_why(wanted, len(free), usable, sharing, host))


def _never(wanted: int, usable: Sequence[Gpu], host: Host) -> str:
    if len(usable) == len(host.gpus):
        return f"The trial asks for {_gpus(wanted)}, but {host.name} has {len(usable) or 'none'}."
    allowed = f"gpuIndices allows {len(usable)} of the {len(host.gpus)} on {host.name}"
    return f"The trial asks for {_gpus(wanted)}, but {allowed}."


def _why(wanted: int, free: int, usable: Sequence[Gpu], sharing: dict[int, list[Holding]], host: Host) -> str:
    holders = {holding.job_id: holding for held in sharing.values() for holding in held}
    named = ", ".join(_holder(holding) for holding in list(holders.values())[:3])
    more = f" and {len(holders) - 3} more" if len(holders) > 3 else ""
    others = sum(gpu.active and not sharing[gpu.index] for gpu in usable)
    who = [f"{named}{more}"] if holders else []
    if others and not host.use_active_gpu:
        who.append(f"{_gpus(others)} by processes that are not trials")
    subject = "a free GPU" if wanted == 1 else f"{wanted} free GPUs"
    by = f" ({'; '.join(who)})" if who else ""
    taken = len(usable) - free
    verb = "is" if taken == 1 else "are"
    return f"waits for {subject}: {taken} of {_gpus(len(usable))} on {host.name} {verb} in use{by}"


def _holder(holding: Holding) -> str:
    trial = holding.job_id.removeprefix(f"{holding.experiment_id}-").rpartition("-")[0]
    return f"trial {trial} of experiment {holding.experiment_id}"


def _gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


@dataclass(slots=True)
class HostLedger:
    """Who holds which GPU of which host, over all experiments of the server.

    A server that reopens experiments calls ``expect`` for each of them before it opens the first: until all
    have submitted their jobs again (``rebuilt``), no GPU is given away.
    """

    _held: dict[str, dict[str, Holding]] = field(default_factory=dict)  # host -> job -> holding
    _expected: dict[str, None] = field(default_factory=dict)  # experiments, in order
    _listeners: dict[object, Callable[[], None]] = field(default_factory=dict)

    def expect(self, experiment_ids: Iterable[str]) -> None:
        """These experiments are about to be opened and may hold GPUs."""
        self._expected.update(dict.fromkeys(experiment_ids))

    def rebuilt(self, experiment_id: str) -> None:
        """The experiment has submitted its jobs again, or will not be opened after all."""
        if experiment_id in self._expected:
            del self._expected[experiment_id]
            if not self._expected:
                self._notify()

    def listen(self, owner: object, freed: Callable[[], None]) -> None:
        """Call ``freed`` when something may have become free. Replaces the owner's listener."""
        self._listeners[owner] = freed

    def ignore(self, owner: object) -> None:
        self._listeners.pop(owner, None)

    def check(self, need: Need, host: Host) -> None:
        """Raises JobRejected if the host can never grant what the job needs."""
        place(need, host, ())

    def place(self, need: Need, host: Host) -> tuple[int, ...] | Waits:
        """Choose and hold GPUs for the job. Raises JobRejected."""
        if need.whole_gpus and self._expected:
            self.check(need, host)
            names = ", ".join(self._expected)
            return Waits(f"waits until it is known which GPUs experiment {names} holds")
        held = self._held.get(host.id, {})
        chosen = place(need, host, list(held.values()) if need.whole_gpus else ())
        if isinstance(chosen, tuple):
            self.hold(need, host, chosen)
        return chosen

    def hold(self, need: Need, host: Host, gpus: tuple[int, ...]) -> None:
        """The job holds these GPUs, whoever else does."""
        if gpus:
            self._held.setdefault(host.id, {})[need.job_id] = Holding(
                experiment_id=need.experiment_id,
                job_id=need.job_id,
                gpus=gpus,
                jobs_per_gpu=need.jobs_per_gpu(host),
            )

    def release(self, host_id: str, job_id: str) -> None:
        """The job holds nothing any more."""
        if self._held.get(host_id, {}).pop(job_id, None) is not None:
            self._notify()

    def _notify(self) -> None:
        for freed in list(self._listeners.values()):
            freed()
