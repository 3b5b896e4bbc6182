"""Who holds what of which machine, over all experiments of a server, and whose turn it is.

The ``HostLedger`` lives in memory; who holds what is rebuilt from the live jobs of all experiments before
anything scarce is given away. Whether a job fits is decided in ``fit``, which is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from training_services.fit import behind_others, keep, place
from training_services.needs import (
    Capacity,
    Gpu,
    GpuProcess,
    GpuReading,
    Holding,
    Host,
    Need,
    TooLarge,
    Waits,
    all_of,
    trial_text,
)

__all__ = [
    "Capacity",
    "Gpu",
    "GpuProcess",
    "GpuReading",
    "Holding",
    "Host",
    "HostLedger",
    "HostUse",
    "Need",
    "TooLarge",
    "Waits",
    "place",
]

_PARTS = 1_000_000  # of a GPU or a machine: weights are added and taken away exactly

Freed = Callable[[Collection[str] | None], None]


@dataclass(slots=True)
class _Machine:
    """What is known of one host."""

    capacity: Capacity | None = None
    jobs: set[str] = field(default_factory=set)  # all that are there, whatever they hold
    held: dict[str, Holding] = field(default_factory=dict)  # by job, of those that hold something scarce
    weights: dict[str, int] = field(default_factory=dict)  # of those
    readings: dict[object, GpuReading] = field(default_factory=dict)  # by who has read, the newest last
    seen: set[int] = field(default_factory=set)  # GPUs that were ever there
    ended: set[str] = field(default_factory=set)  # jobs that the last reading may still show
    ended_since: set[str] = field(default_factory=set)  # after it
    left_since: set[int] = field(default_factory=set)  # GPUs that they held
    waiting: dict[str, tuple[Need, Host]] = field(default_factory=dict)  # by experiment

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
        if holding.gpus:
            self.ended_since.add(holding.job_id)
            self.left_since.update(holding.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUse:
    """A host as the ledger has it: what it has, its GPUs as they were read last, and the jobs there.

    ``held``: by job, of those that hold something scarce.
    """

    capacity: Capacity | None
    reading: GpuReading | None
    jobs: frozenset[str]
    held: Mapping[str, Holding]


@dataclass(frozen=True, slots=True)
class _Listener:
    experiment_id: str
    freed: Freed


@dataclass(slots=True)
class HostLedger:
    """Who holds which GPU of which host and how much of its CPUs and memory, over all experiments.

    While a job waits, what it lacks is kept for it against those whose turn comes later: else one that needs
    several GPUs, or a whole machine, would wait for ever where others take every part that falls free.

    A server that reopens experiments calls ``expect`` for each of them before it opens the first: until all
    have submitted their jobs again (``rebuilt``), nothing scarce is given away.
    """

    _machines: dict[str, _Machine] = field(default_factory=dict)
    _expected: dict[str, None] = field(default_factory=dict)  # experiments, in order
    _listeners: dict[object, _Listener] = field(default_factory=dict)
    _grants: dict[str, int] = field(default_factory=dict)  # experiment -> number of its last grant
    _granted: int = 0
    _holds: dict[str, int] = field(default_factory=dict)  # experiment -> weight of all that it holds
    _first: dict[str, str] = field(default_factory=dict)  # experiment -> its first job to wait
    _waits_at: dict[str, dict[str, None]] = field(
        default_factory=dict
    )  # experiment -> hosts that it waits for
    _contended: dict[str, None] = field(default_factory=dict)  # hosts that several experiments wait for

    def expect(self, experiment_ids: Iterable[str]) -> None:
        """These experiments are about to be opened and may hold something."""
        self._expected.update(dict.fromkeys(experiment_ids))

    def rebuilt(self, experiment_id: str) -> None:
        """The experiment has submitted its jobs again, or will not be opened after all."""
        if experiment_id in self._expected:
            del self._expected[experiment_id]
            if not self._expected:
                self._notify(None)

    def listen(self, owner: object, freed: Freed, *, experiment_id: str) -> None:
        """Call ``freed`` when something may have become free, with the hosts; None: on any of them.

        Replaces the owner's listener.
        """
        self._listeners[owner] = _Listener(experiment_id, freed)

    def ignore(self, owner: object) -> None:
        """The owner wants to hear nothing more, and keeps its readings up to date no longer."""
        listener = self._listeners.pop(owner, None)
        for machine in self._machines.values():
            machine.readings.pop(owner, None)
        if listener is not None:
            self.withdraw(listener.experiment_id)

    # ---- what machines are --------------------------------------------------------------------------------

    def read(self, host_id: str, owner: object, reading: GpuReading) -> None:
        """The GPUs of the host as a keeper of the owner has just read them; it tells every change."""
        self._machine(host_id).read(owner, reading)
        self._notify(host_id)

    def told(self, host_id: str, capacity: Capacity) -> None:
        """What the host has in all, as its keeper says."""
        machine = self._machine(host_id)
        known, machine.capacity = machine.capacity, capacity
        if known is None or known[:2] != capacity[:2]:
            self._notify(host_id)

    def capacity(self, host_id: str) -> Capacity | None:
        """What the host has in all; None: nobody has said."""
        machine = self._machines.get(host_id)
        return None if machine is None else machine.capacity

    def reading(self, host_id: str) -> GpuReading | None:
        """The host's GPUs as they were read last."""
        machine = self._machines.get(host_id)
        return None if machine is None else machine.reading

    def use(self, host_id: str) -> HostUse:
        """What is known of a host, over all experiments."""
        machine = self._machines.get(host_id) or _Machine()
        return HostUse(
            capacity=machine.capacity,
            reading=machine.reading,
            jobs=frozenset(machine.jobs),
            held=dict(machine.held),
        )

    def load(self, host_id: str) -> float:
        """Jobs per CPU, of all experiments."""
        machine = self._machines.get(host_id)
        if machine is None:
            return 0.0
        return len(machine.jobs) / (1.0 if machine.capacity is None else machine.capacity.cpus)

    def trouble(self, host: Host) -> str | None:
        """What is wrong with the host's GPUs, as one sentence."""
        machine = self._machine(host.id)
        reading = machine.reading
        if reading is not None and reading.trouble is not None:
            return f"the GPUs of {host.name} cannot be read: {reading.trouble}"
        if not machine.gone:
            return None
        names = all_of([f"GPU {index}" for index in sorted(machine.gone)])
        users = [trial_text(job.job_id) for job in machine.held.values() if machine.gone & set(job.gpus)]
        of = f"; {all_of(users)} had been given what is gone" if users else ""
        return f"{names} of {host.name} {'has' if len(machine.gone) == 1 else 'have'} vanished{of}"

    # ---- what is given away -------------------------------------------------------------------------------

    def check(self, need: Need, host: Host) -> None:
        """Raises JobRejected if the host can never grant what the job needs."""
        place(need, host, None, (), capacity=self.capacity(host.id))

    def place(self, need: Need, host: Host) -> tuple[int, ...] | Waits:
        """Choose GPUs for the job, and hold what it needs. Raises JobRejected."""
        if need.nothing:
            self.hold(need, host, ())
            return ()
        if self._expected:
            self.check(need, host)
            what = "which GPUs" if need.gpus else "how much"
            reason = f"waits until it is known {what} experiment {', '.join(self._expected)} holds"
            return Waits(reason, behind_others(need, host))
        machine = self._machine(host.id)
        held, over = list(machine.held.values()), machine.ended | machine.ended_since
        for other, others_host in self._ahead(need, machine):
            kept = keep(
                other, others_host, machine.reading, held,
                capacity=machine.capacity, over=over, left=machine.left_since,
            )  # fmt: skip
            if kept is not None:
                held.append(kept)
        chosen = place(
            need, host, machine.reading, held,
            capacity=machine.capacity, over=over, left=machine.left_since, gone=machine.gone,
        )  # fmt: skip
        name = need.experiment_id
        if isinstance(chosen, Waits):
            self._wait(need, host)
            return chosen
        self._unwait(name, host.id)
        self.hold(need, host, chosen)
        self._granted += 1
        self._grants[name] = self._granted
        return chosen

    def _ahead(self, need: Need, machine: _Machine) -> list[tuple[Need, Host]]:
        """Those of other experiments that wait and whose turn comes first, in order."""
        waiting = [
            pair
            for name, pair in machine.waiting.items()
            if name != need.experiment_id and name in self._first
        ]
        if not waiting:
            return []
        number = {name: number for number, name in enumerate(machine.waiting)}

        def turn(name: str) -> tuple[int, int, int]:
            return *self._turn(name), number.get(name, len(number))

        ahead = [pair for pair in waiting if turn(pair[0].experiment_id) < turn(need.experiment_id)]
        ahead.sort(key=lambda pair: turn(pair[0].experiment_id))
        return [(replace(each, job_id=self._first[each.experiment_id]), host) for each, host in ahead]

    def _wait(self, need: Need, host: Host) -> None:
        name, machine = need.experiment_id, self._machine(host.id)
        machine.waiting.setdefault(name, (need, host))
        self._first.setdefault(name, need.job_id)
        self._waits_at.setdefault(name, {})[host.id] = None
        if len(machine.waiting) > 1:
            self._contended[host.id] = None

    def _unwait(self, experiment_id: str, host_id: str) -> bool:
        hosts = self._waits_at.get(experiment_id, {})
        if host_id not in hosts:
            return False
        del hosts[host_id]
        if not hosts:
            del self._waits_at[experiment_id]
            self._first.pop(experiment_id, None)
        waiting = self._machine(host_id).waiting
        del waiting[experiment_id]
        if len(waiting) < 2:
            self._contended.pop(host_id, None)
        return True

    def pass_on(self, experiment_id: str, job_id: str | None) -> None:
        """What is kept for the experiment is kept for this job, which needs the same; None: for none now."""
        hosts = self._waits_at.get(experiment_id)
        if not hosts:
            return
        if job_id is not None:
            self._first[experiment_id] = job_id
            return
        others = [host_id for host_id in hosts if host_id in self._contended]
        if self._first.pop(experiment_id, None) is not None and others:
            self._notify(*others)

    def withdraw(self, experiment_id: str, *, host_id: str | None = None) -> None:
        """Nothing is to be kept for the experiment at present, or nothing on this host.

        Those who wait are asked at once, so that its own queue has to be in order.
        """
        at = self._waits_at.get(experiment_id, ())
        gone = [each for each in (list(at) if host_id is None else [host_id]) if each in at]
        for each in gone:
            self._unwait(experiment_id, each)
        if gone:
            self._notify(*gone)

    def hold(self, need: Need, host: Host, gpus: tuple[int, ...]) -> None:
        """The job is there and holds these GPUs and what else it needs, whoever else does."""
        machine = self._machine(host.id)
        machine.jobs.add(need.job_id)
        if gpus or need.cpus or need.memory:
            before = machine.weights.get(need.job_id, 0)
            holding = machine.held[need.job_id] = need.on(host, gpus)
            weight = machine.weights[need.job_id] = round(_PARTS * holding.weight(machine.capacity))
            self._holds[need.experiment_id] = self._holds.get(need.experiment_id, 0) + weight - before

    def release(self, host_id: str, job_id: str) -> bool:
        """The job holds nothing any more, and nothing of it runs. False: that was so before."""
        machine = self._machine(host_id)
        if job_id not in machine.jobs:
            return False
        machine.jobs.discard(job_id)
        holding = machine.held.pop(job_id, None)
        if holding is None:
            return True
        name = holding.experiment_id
        self._holds[name] -= machine.weights.pop(job_id)
        if not self._holds[name]:
            del self._holds[name]
        machine.release(holding)
        self._notify(host_id)
        return True

    def _machine(self, host_id: str) -> _Machine:
        return self._machines.setdefault(host_id, _Machine())

    def _turn(self, experiment_id: str) -> tuple[int, int]:
        """Those who hold least come first, then who was given something longest ago."""
        return self._holds.get(experiment_id, 0), self._grants.get(experiment_id, 0)

    def _notify(self, *hosts: str | None) -> None:
        """Something has changed there; and by whose turn it is, wherever several experiments wait."""
        changed = None if None in hosts else list(dict.fromkeys([*filter(None, hosts), *self._contended]))
        for listener in sorted(self._listeners.values(), key=lambda each: self._turn(each.experiment_id)):
            listener.freed(changed)
