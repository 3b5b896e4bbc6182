"""Resources that jobs of all experiments of a server hold on machines, and the experiment whose turn is next.

The ``HostLedger`` is only in memory. It is rebuilt from the running jobs of all experiments before any GPU,
CPU or memory is given to a new job. The functions of ``fit`` decide whether a job fits on a machine.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import count

from training_services.base import member_id_of
from training_services.placement.fit import behind_others, place
from training_services.placement.gang import Between, GangWants, Refused, choose_hosts
from training_services.placement.gang_preemption import GangPreemption
from training_services.placement.listeners import Freed, Listeners
from training_services.placement.machine import HostUse
from training_services.placement.machine_table import MachineTable
from training_services.placement.needs import (
    Capacity,
    Gpu,
    GpuProcess,
    GpuReading,
    Holding,
    Host,
    Need,
    TooLarge,
    Waits,
)
from training_services.placement.preemption import Preemptible, Preemption
from training_services.placement.turns import Turns
from training_services.placement.waiting import WaitingLines

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

# Weights are integers: parts of a GPU or of a machine. Sums of integers have no rounding errors.
_PARTS = 1_000_000


@dataclass(slots=True)
class HostLedger(MachineTable):
    """Table that says which job holds which GPUs, CPUs and memory on which machine, over all experiments.

    While a job waits, the resources that it lacks are reserved for it: jobs whose turn comes later cannot
    take them. Otherwise a job that needs several GPUs, or a whole machine, would wait forever while smaller
    jobs take every part that becomes free. Jobs of other experiments leave them on all machines where the
    job waits, and jobs of the same experiment that need something else leave them on one of these machines.

    A server that reopens experiments calls ``expect`` for all of them before it opens the first. No GPU, CPU
    or memory is given to a new job until each experiment has submitted its jobs again, or has none
    (``rebuilt``).

    ``line_numbers``: numbers for the lines of all queues, since an experiment may have several queues.
    """

    line_numbers: Iterator[int] = field(default_factory=count)
    _expected: dict[str, None] = field(default_factory=dict)  # experiments that are not rebuilt yet, in order
    _turns: Turns = field(default_factory=Turns)
    _lines: WaitingLines = field(default_factory=WaitingLines)
    _listeners: Listeners = field(init=False)
    preemption: Preemption = field(init=False)
    gang_preemption: GangPreemption = field(init=False)

    def __post_init__(self) -> None:
        self._listeners = Listeners(self._turns.of, self._lines.contended)
        self.preemption = Preemption(
            priority=self._turns.priority,
            machine=self._machine,
            waiting=self._lines.need_at,
            held_before=self._held_before,
        )
        self.gang_preemption = GangPreemption(
            self.preemption, machine=self._machine, held_before=self._held_before
        )

    def expect(self, experiment_ids: Iterable[str]) -> None:
        """Give no GPUs, CPUs or memory to new jobs until ``rebuilt`` was called for each of these
        experiments.

        Jobs of these experiments may be running and hold resources that are not recorded here yet.
        """
        self._expected.update(dict.fromkeys(experiment_ids))

    def rebuilt(self, experiment_id: str) -> None:
        """Record that the experiment has submitted its jobs again, or that its jobs need not be awaited."""
        if experiment_id in self._expected:
            del self._expected[experiment_id]
            if not self._expected:
                self._notify(None)

    def listen(self, owner: object, freed: Freed, *, experiment_id: str) -> None:
        """Register the function ``freed`` of an experiment's queue (``owner``). It replaces the owner's
        earlier one.

        It is called with the machines on which resources may have become free; None: on all machines.
        """
        self._listeners.add(owner, freed, experiment_id=experiment_id)

    def ignore(self, owner: object) -> None:
        """Forget an experiment's queue (``owner``): its listener, GPU readings and reserved resources."""
        name = self._listeners.remove(owner)
        for machine in self._machines.values():
            machine.readings.pop(owner, None)
        if name is not None:
            self._turns.forget_priority(name)
            for member_id, host_id in self.preemption.spares.close(name).items():
                self.release(host_id, member_id)
            changed = self.preemption.close(name)
            changed += [host_id for host_id, machine in self._machines.items() if machine.leave_all(name)]
            self.withdraw(name)
            if changed:
                self._notify(*changed)

    def prioritise(self, experiment_id: str, priority: int) -> None:
        """Set the priority of the experiment. Free resources are given to the highest priority first."""
        if self._turns.prioritise(experiment_id, priority):
            self._notify(None)

    def preempt(self, experiment_id: str, jobs: Preemptible) -> None:
        """Allow that running jobs of the experiment are stopped for experiments with a higher priority."""
        self.preemption.allow(experiment_id, jobs)
        self._notify(None)

    def reachable(self, experiment_id: str, host_id: str) -> None:
        """Record that the experiment's keeper on the machine calls, so that its jobs there can be stopped."""
        if self.preemption.allows(experiment_id):
            self._notify(host_id)

    # ---- placement of jobs on machines --------------------------------------------------------------------

    def place(self, need: Need, host: Host) -> tuple[int, ...] | Waits:
        """Choose GPUs for the job and reserve its resources, or return why it must wait.

        Raises JobRejected.
        """
        if need.nothing:
            self.hold(need, host, ())
            return ()
        if self._expected:
            self.check(need, host)
            reason = _not_rebuilt(need, list(self._expected))
            return Waits(reason, behind_others(need, host))
        machine, held = self._machine(host.id), self._held_before(need, host)
        chosen = machine.place(need, host, held)
        if isinstance(chosen, Waits):
            keepable = machine.keep(need, host, held) is not None
            self.preemption.refused((need.experiment_id, need.line), host.id, keepable=keepable)
            if self._lines.wait(need, host, keepable=keepable):
                self._notify(host.id)
            return chosen
        self._lines.leave((need.experiment_id, need.line), host.id)
        self.preemption.placed((need.experiment_id, need.line), host.id)
        self.hold(need, host, chosen)
        self._turns.granted(need.experiment_id)
        return chosen

    def place_gang(
        self, wants: GangWants, asked: Sequence[tuple[Need, Host]], between: Between | None
    ) -> list[tuple[int, tuple[int, ...]]] | Refused:
        """Choose hosts and GPUs for the members of a gang and reserve their resources, or reserve nothing and
        return why the gang must wait.

        ``asked``, ``between``: see ``choose_hosts``. Later experiments leave a gang that waits room for one
        member on each host. Return the index of each member's host. Raises JobRejected.
        """
        if wants.alone:
            for need, host in asked:
                self.check(need.times(wants.least), host)
        if self._expected and any(not need.nothing for need, _ in asked):
            waits = Waits(_not_rebuilt(asked[0][0], list(self._expected)))
            return Refused(asked[0][0], 0, len(asked), [waits], [])
        chosen = choose_hosts(wants, asked, self.fits, between)
        if isinstance(chosen, Refused):
            self._wait_for_gang(wants, asked)
            return chosen
        for need, host in asked:
            self._lines.leave((need.experiment_id, need.line), host.id)
        for member, (index, gpus) in enumerate(chosen):
            need, host = asked[index]
            self.hold(replace(need, job_id=member_id_of(need.job_id, member)), host, gpus)
        self._turns.granted(asked[0][0].experiment_id)
        return chosen

    def is_contended(self, experiment_id: str, hosts: Iterable[Host]) -> bool:
        """Return whether other experiments, whose priority is not lower, wait for one of the machines, or
        gangs give up members for jobs that wait.
        """
        others = {name for host in hosts for name in self._lines.experiments_at(host.id)} - {experiment_id}
        is_waited_for = any(not self._turns.is_higher(experiment_id, each) for each in others)
        return is_waited_for or self.preemption.spares.is_shrinking

    def free_kept(self, job_id: str) -> None:
        """Free the places that are kept for the next attempt of the job's trial (see ``Spares``)."""
        with self.held_back():
            for member_id, host_id in self.preemption.spares.over(job_id).items():
                self.release(host_id, member_id)

    def held_back(self) -> AbstractContextManager[None]:
        """Let waiting jobs ask for what becomes free only after the end of the block."""
        return self._listeners.held_back()

    def can_shrink(self, hosts: Iterable[str]) -> None:
        """Record that a gang on these machines can give up members from now on."""
        self._notify(*hosts)

    def is_awaited(self, host_id: str) -> bool:
        """Return whether jobs wait for the machine, or may hold resources there that are not known yet."""
        return bool(self._expected) or bool(self._lines.experiments_at(host_id))

    def fits(self, need: Need, host: Host, beside: Sequence[Holding]) -> tuple[int, ...] | Waits:
        return self._machine(host.id).place(need, host, [*self._held_before(need, host), *beside])

    def _wait_for_gang(self, wants: GangWants, asked: Sequence[tuple[Need, Host]]) -> None:
        """Let later experiments leave the gang what it needs, on all hosts, also on those that have room."""
        for need, host in asked:
            whole = need.times(wants.least) if wants.alone else need
            if need.nothing or not self.is_large_enough(whole, host):
                continue
            held = self._held_before(need, host)
            keepable = self._machine(host.id).keep(whole, host, held) is not None
            if self._lines.wait(whole, host, keepable=keepable):
                self._notify(host.id)

    def _held_before(self, need: Need, host: Host, leaving: Collection[Holding] = ()) -> list[Holding]:
        """Return what jobs hold on the machine, and what is kept there for jobs whose turn is before this
        one.

        ``leaving``: what jobs hold that count as ended already.
        """
        machine, over = self._machine(host.id), {each.job_id for each in leaving}
        held = [each for each in machine.held.values() if each.job_id not in over]
        held += [
            each
            for each in machine.leaving.values()
            if self._turns.is_higher(each.experiment_id, need.experiment_id)
        ]
        for wishes in self._lines.ahead(need, host.id, self._turns.of):
            found = (machine.keep(*wish, held, leaving=leaving) for wish in wishes)
            if (kept := next(filter(None, found), None)) is not None:
                held.append(kept)
        return held

    def pass_on(
        self, experiment_id: str, job_id: str | None, *, line: Hashable = 0, arrival: int = 0
    ) -> None:
        """Transfer the resources that are reserved for a line of equal jobs to this job of the line.

        ``job_id`` None: no job of the line waits, so free the resources. Listeners of waiting experiments may
        be called at once, so the caller's own queue must be in a consistent state.
        """
        head = None if job_id is None else (arrival, job_id)
        if head is None:
            self.preemption.satisfied((experiment_id, line))
        changed = self._lines.pass_on((experiment_id, line), head)
        if changed:
            self._notify(*changed)

    def placed_at_once(self, experiment_id: str, *, line: Hashable) -> None:
        """Record that a job has got a place before any other job of its line waited for one."""
        if self._lines.waits(experiment_id):
            self.pass_on(experiment_id, None, line=line)
            self.turn_taken(experiment_id)

    def turn_taken(self, experiment_id: str) -> None:
        """Let experiments ask again whose turn now comes before this one, because its jobs got places.

        Listeners may be called at once.
        """
        if self._lines.contended and self._lines.waits(experiment_id):
            self._notify()

    def withdraw(self, experiment_id: str, *, host_id: str | None = None) -> None:
        """Free the resources that are reserved for the experiment's waiting jobs on this machine.

        ``host_id`` None: on all machines. Listeners of waiting experiments are called at once, so the
        caller's own queue must be in a consistent state.
        """
        lines = self._lines.of(experiment_id)
        self.preemption.withdraw(lines, host_id=host_id)
        gone = self._lines.withdraw(lines, host_id=host_id)
        if gone:
            self._notify(*gone)

    def forget(self, experiment_id: str, line: Hashable) -> None:
        """Forget a line of equal jobs of which none waits."""
        self.preemption.withdraw([(experiment_id, line)])
        self._lines.withdraw([(experiment_id, line)])

    def hold(self, need: Need, host: Host, gpus: tuple[int, ...]) -> None:
        """Record that the job holds these GPUs, and the CPUs and memory that it needs.

        It may be recorded even if other jobs hold the same resources.
        """
        machine = self._machine(host.id)
        machine.jobs.add(need.job_id)
        if gpus or need.cpus or need.memory:
            before = machine.weights.get(need.job_id, 0)
            holding = machine.held[need.job_id] = need.on(host, gpus)
            weight = machine.weights[need.job_id] = round(_PARTS * holding.weight(machine.capacity))
            self._turns.weigh(need.experiment_id, weight - before)
            self._taken()

    def release(self, host_id: str, job_id: str, *, heard: bool = True) -> bool:
        """Free all resources of an ended job on the machine. Return False if the job was not there.

        ``heard``: the core has heard of the end. Before, the job's experiment may still submit another job,
        so experiments with a lower priority do not get the resources yet.
        """
        machine = self._machine(host_id)
        self.preemption.spares.ended(job_id)
        if self.preemption.spares.keeps(job_id, host_id):
            return False
        if job_id not in machine.jobs:
            if machine.leaving.pop(job_id, None) is not None:
                self._notify(host_id)
            return False
        machine.jobs.discard(job_id)
        self.preemption.ended(host_id, job_id)
        holding = machine.held.pop(job_id, None)
        if holding is None:
            return True
        self._turns.weigh(holding.experiment_id, -machine.weights.pop(job_id))
        machine.release(holding)
        if not heard and any(
            self._turns.is_higher(holding.experiment_id, each) for each in self._lines.experiments_at(host_id)
        ):
            machine.leaving[job_id] = holding
        self._notify(host_id)
        return True

    def _notify(self, *hosts: str | None) -> None:
        self._listeners.notify(*hosts)


def _not_rebuilt(need: Need, expected: Sequence[str]) -> str:
    """Return why no resources are given to the job before these experiments have submitted their jobs
    again.
    """
    return (
        f"waits until experiment {', '.join(expected)} has reported "
        f"{'which GPUs' if need.gpus else 'how much'} it holds "
        f"(to see why it has not: nnictl experiment show {expected[0]}; "
        f"to continue without it: nnictl stop {expected[0]} --detach)"
    )
