"""Machines of all experiments of a server: their capacity, their GPUs, and what jobs hold there."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field

from training_services.base import JobRejected
from training_services.placement.fit import place
from training_services.placement.machine import HostUse, Machine
from training_services.placement.needs import Capacity, GpuReading, Host, Need

__all__ = ["MachineTable"]


@dataclass(slots=True)
class MachineTable(abc.ABC):
    """Table of machines, by the ids of their hosts."""

    _machines: dict[str, Machine] = field(default_factory=dict)
    _watchers: dict[object, Callable[[], None]] = field(default_factory=dict)

    @abc.abstractmethod
    def _notify(self, *hosts: str | None) -> None:
        """Report the machines on which resources may have become free; None: all machines."""

    def watch(self, owner: object, taken: Callable[[], None]) -> None:
        """Let ``taken`` be called whenever a job gets resources of any machine."""
        self._watchers[owner] = taken

    def unwatch(self, owner: object) -> None:
        self._watchers.pop(owner, None)

    def _taken(self) -> None:
        for taken in self._watchers.values():
            taken()

    def read(self, host_id: str, owner: object, reading: GpuReading) -> None:
        """Record a GPU reading of the machine. ``owner``: the queue of the experiment whose keeper reports
        it.
        """
        self._machine(host_id).read(owner, reading)
        self._notify(host_id)

    def told(self, host_id: str, capacity: Capacity) -> None:
        """Record the total capacity of the machine as a keeper reports it."""
        machine = self._machine(host_id)
        known, machine.capacity = machine.capacity, capacity
        if known is None or known[:2] != capacity[:2]:
            self._notify(host_id)

    def capacity(self, host_id: str) -> Capacity | None:
        """Return the total capacity of the machine, or None if no keeper has reported it."""
        machine = self._machines.get(host_id)
        return None if machine is None else machine.capacity

    def reading(self, host_id: str) -> GpuReading | None:
        """Return the last GPU reading of the machine, or None if there is none."""
        machine = self._machines.get(host_id)
        return None if machine is None else machine.reading

    def use(self, host_id: str) -> HostUse:
        """Return a snapshot of the machine's resources and of the jobs of all experiments on it."""
        return (self._machines.get(host_id) or Machine()).use()

    def load(self, host_id: str) -> float:
        """Return the number of jobs per CPU on the machine, over all experiments."""
        machine = self._machines.get(host_id)
        return 0.0 if machine is None else machine.load

    def trouble(self, host: Host) -> str | None:
        """Return a sentence that says what is wrong with the machine's GPUs, or None if they work."""
        return self._machine(host.id).trouble(host)

    def _machine(self, host_id: str) -> Machine:
        return self._machines.setdefault(host_id, Machine())

    def check(self, need: Need, host: Host) -> None:
        """Raise JobRejected if the machine can never provide the resources that the job needs."""
        place(need, host, None, (), capacity=self.capacity(host.id))

    def is_large_enough(self, need: Need, host: Host) -> bool:
        """Return whether the machine can ever provide the resources that the job needs."""
        try:
            self.check(need, host)
        except JobRejected:
            return False
        return True
