"""Preemption: running jobs are stopped for waiting jobs of experiments with a higher priority.

Only jobs of experiments that allow it are stopped, and no more of them than necessary. Before that, gangs
give up members that they can do without (see ``spares``). The records are only in memory. After a restart of
the server they are computed again, from the jobs that were ordered to stop before it and from the waiting
jobs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, TypeVar

from training_services.base import JobRejected, job_of_member
from training_services.placement.machine import Machine
from training_services.placement.needs import Holding, Host, Need, Waits, all_of, trial_text
from training_services.placement.spares import Spares
from training_services.placement.waiting import Key

__all__ = ["Preemptible", "Preemption", "Victim", "fewest"]

MOST_COMPARED = 8  # machines that are compared for one waiting job, which bounds the cost
T = TypeVar("T")
MOST_AT_ONCE = 32  # waiting jobs for which one event makes room; more follows when the stopped jobs end


class Preemptible(NamedTuple):
    """Running jobs of an experiment that may be stopped for other experiments.

    ``can_stop(job_id)`` returns False if the job has ended or its keeper is silent. ``stop(job_id, by)`` has
    the job stopped for a waiting job of the experiment ``by``.
    """

    can_stop: Callable[[str], bool]
    stop: Callable[[str, str], None]


class Victim(NamedTuple):
    """What a running job holds on a machine, and can come free for a waiting job.

    ``spare``: the job is a member of a gang that continues without it. Otherwise the job, or the whole gang,
    is stopped.
    """

    host_id: str
    held: Holding
    spare: bool


@dataclass(slots=True, eq=False)
class _Order:
    """Room on a machine that is being made for one waiting job of a line.

    ``awaited``: jobs whose ends make the room. ``told``: sentence that says which trials make room; None: all
    of them end anyway.
    """

    key: Key
    host_id: str
    awaited: set[str]
    told: str | None


@dataclass(slots=True)
class _Orders:
    """Orders for the waiting jobs of one line, oldest first, with their numbers on each machine."""

    all: dict[_Order, None] = field(default_factory=dict)
    at: Counter[str] = field(default_factory=Counter)

    def add(self, order: _Order) -> None:
        self.all[order] = None
        self.at[order.host_id] += 1

    def remove(self, order: _Order) -> None:
        if order in self.all:
            del self.all[order]
            self.at[order.host_id] -= 1


class Preemption:
    """Table of the room that is being made for lines of waiting jobs. A line is a ``Key`` of WaitingLines.

    ``priority`` returns the priority of an experiment, ``machine`` the machine with this id, and ``waiting``
    what a line needs on a machine where it waits. ``held_before`` returns what is held on a machine and kept
    for jobs whose turn comes before a job, without what some jobs hold that count as ended.
    """

    def __init__(
        self,
        *,
        priority: Callable[[str], int],
        machine: Callable[[str], Machine],
        waiting: Callable[[Key, str], tuple[Need, Host] | None],
        held_before: Callable[[Need, Host, Collection[Holding]], list[Holding]],
    ) -> None:
        self._priority, self._machine = priority, machine
        self._waiting, self._held_before = waiting, held_before
        self.spares = Spares(priority)
        self._preemptible: dict[str, Preemptible] = {}  # by experiment
        # machine -> its jobs that were ordered to stop -> the job's experiment if it was preempted, else None
        self._stopping: dict[str, dict[str, str | None]] = {}
        self._orders: dict[Key, _Orders] = {}
        self._awaiting: dict[str, list[_Order]] = {}  # job -> orders that wait for its end
        # line -> machines that have refused it, and where jobs of a lower priority can end (ordered sets)
        self._possible: dict[Key, dict[str, None]] = {}

    def allow(self, experiment_id: str, jobs: Preemptible) -> None:
        """Allow that jobs of the experiment are stopped. Each of its services allows it for its own jobs."""
        earlier = self._preemptible.get(experiment_id)
        if earlier is not None:
            jobs = Preemptible(_either(earlier.can_stop, jobs.can_stop), jobs.stop)
        self._preemptible[experiment_id] = jobs

    def allows(self, experiment_id: str) -> bool:
        """Return True if jobs of the experiment may be stopped."""
        return experiment_id in self._preemptible

    def makes_room(self, experiment_id: str) -> bool:
        """Return True while jobs are being stopped for waiting jobs of the experiment."""
        return any(key[0] == experiment_id and orders.all for key, orders in self._orders.items())

    def close(self, experiment_id: str) -> list[str]:
        """Stop no more jobs of the experiment, and wait for none, because its service is closed.

        Return the machines where jobs were waited for.
        """
        found: list[str] = []
        self._preemptible.pop(experiment_id, None)
        for host_id, stopping in list(self._stopping.items()):
            held = self._machine(host_id).held
            jobs = [each for each in stopping if each in held and held[each].experiment_id == experiment_id]
            found += [host_id] if any(job_id in self._awaiting for job_id in jobs) else []
            for job_id in jobs:  # the next service of the experiment names those whose stops are committed
                self.ended(host_id, job_id)
        return found

    # ---- what happens to jobs -----------------------------------------------------------------------------

    def refused(self, key: Key, host_id: str, *, keepable: bool) -> None:
        """Record that the machine has no place for the line. ``keepable``: the end of trials would change
        this.
        """
        possible = self._possible.setdefault(key, {})
        possible.pop(host_id, None)
        if keepable and (self.told(key[0], [host_id]) or self.victims(key[0], [host_id])):
            possible[host_id] = None
        if not possible:
            del self._possible[key]

    def placed(self, key: Key, host_id: str) -> None:
        """Record that a job of the line has got a place on the machine."""
        self._discard(key, host_id)

    def satisfied(self, key: Key) -> None:
        """Record that no job of the line waits any more."""
        self._orders.pop(key, None)

    def withdraw(self, keys: Iterable[Key], *, host_id: str | None = None) -> None:
        """Record that the lines wait no more for this machine; None: for any machine."""
        for key in keys:
            if host_id is None:
                self._possible.pop(key, None)
                self._orders.pop(key, None)
            else:
                self._discard(key, host_id)
                for order in list(self._orders_of(key).all):
                    if order.host_id == host_id:
                        self._drop(order)

    def stopping(self, host_id: str, job_id: str) -> None:
        """Record that the job was ordered to stop."""
        if job_id in self._machine(host_id).jobs and not self.spares.stays(job_id):
            self._stopping.setdefault(host_id, {}).setdefault(job_id, None)

    def ended(self, host_id: str, job_id: str) -> None:
        """Record that the job has ended."""
        stopping = self._stopping.get(host_id)
        if stopping is not None and job_id in stopping:
            del stopping[job_id]
            if not stopping:
                del self._stopping[host_id]
        self._free(job_id)

    def _free(self, job_id: str) -> None:
        for order in self._awaiting.pop(job_id, ()):
            order.awaited.discard(job_id)
            if not order.awaited:  # the room is there, and is given to the line if nobody has it before
                self._drop(order)

    def _discard(self, key: Key, host_id: str) -> None:
        possible = self._possible.get(key)
        if possible is not None and host_id in possible:
            del possible[host_id]
            if not possible:
                del self._possible[key]

    def _orders_of(self, key: Key) -> _Orders:
        return self._orders.get(key) or _Orders()

    def _drop(self, order: _Order) -> None:
        orders = self._orders_of(order.key)
        orders.remove(order)
        if not orders.all:
            self._orders.pop(order.key, None)

    # ---- making room --------------------------------------------------------------------------------------

    def make_room(self, experiment_id: str, line: Hashable, waits: Waits, *, jobs: int) -> Waits:
        """Have jobs stopped until there is or will be room for this number of waiting jobs of the line, if
        that is possible.

        ``waits``: why no machine takes the first of these jobs. Return the same, with the experiments whose
        trials are being stopped.
        """
        key = experiment_id, line
        if key not in self._possible and key not in self._orders:
            return waits
        orders = self._orders.setdefault(key, _Orders())
        while len(orders.all) > jobs:
            orders.remove(next(reversed(orders.all)))
        most = min(jobs, len(orders.all) + MOST_AT_ONCE)
        while len(orders.all) < most and (order := self._order(key)) is not None:
            orders.add(order)
        first = next(iter(orders.all), None)
        if first is None:
            del self._orders[key]
        if first is None or first.told is None:
            return waits
        return replace(waits, reason=f"{waits.reason}; {first.told}")

    def _order(self, key: Key) -> _Order | None:
        """Make room for one more job of the line, on the machine where this costs the least important jobs.

        Return None if no machine can have room, or if one has it already.
        """
        best: tuple[tuple[float, int], str, list[Victim]] | None = None
        for host_id in list(islice(self._possible.get(key, ()), MOST_COMPARED)):
            victims = self._victims(key, host_id)
            if victims is None:
                self._discard(key, host_id)
                continue
            stopped = (self._priority(each.held.experiment_id) for each in victims if not each.spare)
            rank = max(stopped, default=-math.inf), len(victims)
            if best is None or rank < best[0]:
                best = rank, host_id, victims
        if best is None:
            return None
        _, host_id, victims = best
        self.take(victims, key[0])
        awaited = [each.held.job_id for each in victims] or list(self._stopping.get(host_id, {}))
        if not awaited:
            return None  # the room is there, and is given to the line at its next turn
        order = _Order(key, host_id, set(awaited), self.told(key[0], [host_id]))
        for job_id in awaited:
            self._awaiting.setdefault(job_id, []).append(order)
        return order

    def _victims(self, key: Key, host_id: str) -> list[Victim] | None:
        """Return what has to come free on the machine for one more job of the line; None if the job would not
        fit then.

        The list is empty if the job fits when the jobs that are being stopped have ended.
        """
        wish = self._waiting(key, host_id)
        if wish is None:
            return None
        need, host = wish
        machine, leaving = self._machine(host_id), self.leaving(host_id)
        held = self._held_before(need, host, leaving)
        for _ in range(self._orders_of(key).at[host_id]):
            if (kept := machine.keep(need, host, held, leaving=leaving)) is not None:
                held.append(kept)

        def fits(victims: Sequence[Victim]) -> bool:
            gone = {each.held.job_id for each in victims}
            rest = [each for each in held if each.job_id not in gone]
            going = [*leaving, *(each.held for each in victims)]
            try:
                return not isinstance(machine.place(need, host, rest, leaving=going), Waits)
            except JobRejected:  # the machine has become smaller
                return False

        return fewest(self.victims(key[0], [host_id]), fits)

    # ---- running jobs that can make room ------------------------------------------------------------------

    def leaving(self, host_id: str) -> list[Holding]:
        """Return what jobs hold on the machine that are being stopped."""
        held = self._machine(host_id).held
        return [held[job_id] for job_id in self._stopping.get(host_id, {}) if job_id in held]

    def victims(self, experiment_id: str, hosts: Sequence[str], *, first: str | None = None) -> list[Victim]:
        """Return what can come free on these machines for a job of the experiment, the least important first.
        ``first``: machine where the job has to run; None: any.

        First come members that their gangs can do without (see ``Spares``), and then the jobs that can be
        stopped: those of the lowest priority first; among equals, those on machines with few of them; and
        then those that were placed last.
        """
        spare = [
            Victim(host_id, held, spare=True)
            for host_id, member_id in self.spares.for_job_of(experiment_id, hosts, first=first)
            if (held := self._machine(host_id).held.get(member_id)) is not None
        ]
        given_up = {each.held.job_id for each in spare}
        stopped: list[tuple[int, int, Victim]] = []
        for host_id in hosts:
            lower = [each for each in self._lower(experiment_id, host_id) if each.job_id not in given_up]
            for held in lower:
                victim = Victim(host_id, held, spare=False)
                stopped.append((self._priority(held.experiment_id), len(lower), victim))
        return spare + [victim for *_, victim in sorted(stopped, key=lambda each: each[:2])]

    def take(self, victims: Collection[Victim], by: str) -> None:
        """Have jobs stopped, and gangs continue without members, for a job of the experiment ``by``."""
        stopped: dict[str, str] = {}
        for host_id, held, is_spare in victims:
            stopping = self._stopping.setdefault(host_id, {})
            stopping[held.job_id] = None if is_spare else held.experiment_id
            if not is_spare:
                stopped[job_of_member(held.job_id)[0]] = held.experiment_id
        for job_id, experiment_id in stopped.items():
            self._preemptible[experiment_id].stop(job_id, by)
        self.spares.give_up([each.held.job_id for each in victims if each.spare], by)

    def told(self, experiment_id: str, hosts: Iterable[str]) -> str | None:
        """Return which trials on the machines make room for a job of the experiment; None: none do."""
        priority = self._priority(experiment_id)
        lower: dict[str, None] = {}
        smaller: dict[str, None] = {}
        for job_id, name in (each for host_id in hosts for each in self._stopping.get(host_id, {}).items()):
            if name is not None and self._priority(name) < priority:
                lower[name] = None
            elif self.spares.is_leaving(job_id):
                smaller[trial_text(job_of_member(job_id)[0])] = None
        found = [f"trials of experiment {all_of(list(lower))} are being stopped"] if lower else []
        if smaller:
            verb = "continues" if len(smaller) == 1 else "continue"
            found.append(f"{all_of(list(smaller))} {verb} with fewer members")
        return f"{', and '.join(found)} to make room" if found else None

    def _lower(self, experiment_id: str, host_id: str) -> list[Holding]:
        """Return what jobs on the machine hold that can be stopped for a job of the experiment, the one that
        was placed last first.
        """
        priority = self._priority(experiment_id)
        lower = {name for name in self._preemptible if self._priority(name) < priority}
        if not lower:
            return []
        stopping = self._stopping.get(host_id, {})
        return [
            each
            for each in reversed(self._machine(host_id).held.values())
            if each.experiment_id in lower
            and each.job_id not in stopping
            and self._preemptible[each.experiment_id].can_stop(each.job_id)
        ]


def fewest(victims: Sequence[T], fits: Callable[[Sequence[T]], bool]) -> list[T] | None:
    """Return victims of which none can be left out, the least important ones; None if all are not enough.

    ``victims``: the least important first. ``fits``: whether there is room without these victims.
    """
    if not fits(victims):
        return None
    number = bisect_left(range(len(victims)), True, key=lambda count: fits(victims[:count]))
    found = list(victims[:number])
    for each in reversed(found):
        if fits(rest := [other for other in found if other is not each]):
            found = rest
    return found


def _either(first: Callable[[str], bool], second: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda job_id: first(job_id) or second(job_id)
