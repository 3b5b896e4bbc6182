"""Room for a waiting gang: running jobs are stopped, or gangs give up members, on several machines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from training_services.base import job_of_member
from training_services.placement.gang import Between, GangWants, Refused, choose_hosts
from training_services.placement.machine import Machine
from training_services.placement.needs import Holding, Host, Need, Waits
from training_services.placement.preemption import Preemption, Victim, fewest

__all__ = ["GangPreemption"]


class GangPreemption:
    """Decides which running jobs make room for a gang, which needs places on several machines.

    Nothing is stopped unless the gang then has room for its least number of members. Jobs that are being
    stopped count as ended, so the same question leads to no further stops. See ``Preemption`` for the
    arguments.
    """

    def __init__(
        self,
        preemption: Preemption,
        *,
        machine: Callable[[str], Machine],
        held_before: Callable[[Need, Host, Collection[Holding]], list[Holding]],
    ) -> None:
        self._preemption, self._machine, self._held_before = preemption, machine, held_before

    def make_room(
        self,
        experiment_id: str,
        wants: GangWants,
        asked: Sequence[tuple[Need, Host]],
        between: Between | None,
        waits: Waits,
    ) -> Waits:
        """Have jobs stopped so that there will be room for the gang, if that is possible.

        ``asked``, ``between``: see ``choose_hosts``. ``waits``: why the gang waits. Return the same, with the
        trials that make room.
        """
        hosts = [host.id for _, host in asked]
        told = self._preemption.told(experiment_id, hosts)
        units = self._units(experiment_id, wants, asked)
        if not units and told is None:
            return waits
        least = replace(wants, most=wants.least)

        def fits(units: Sequence[Sequence[Victim]]) -> bool:
            return bool(self._chosen(least, asked, between, [each for unit in units for each in unit]))

        if not fits([]):
            found = fewest(units, fits)
            if found is None:
                return waits
            self._preemption.take([each for unit in found for each in unit], experiment_id)
            told = self._preemption.told(experiment_id, hosts)
        return waits if told is None else replace(waits, reason=f"{waits.reason}; {told}")

    def _units(
        self, experiment_id: str, wants: GangWants, asked: Sequence[tuple[Need, Host]]
    ) -> list[list[Victim]]:
        """Return what can come free at once, the least important first: a member that its gang can do
        without, or all that a job holds, on several machines if the job is a gang.
        """
        hosts = [host.id for _, host in asked]
        first = hosts[0] if wants.bound else None
        every = self._preemption.victims(experiment_id, hosts, first=first)
        useful = [host.id for need, host in asked if self._is_useful(wants, need, host, every)]
        units: list[list[Victim]] = []
        stopped: set[str] = set()
        for victim in self._preemption.victims(experiment_id, useful, first=first):
            job_id, _ = job_of_member(victim.held.job_id)
            if victim.spare:
                units.append([victim])
            elif job_id not in stopped:
                stopped.add(job_id)
                units.append(self._whole(victim, job_id))
        return units

    def _is_useful(self, wants: GangWants, need: Need, host: Host, victims: Sequence[Victim]) -> bool:
        """Return whether the machine gets room for more members than now when its victims are gone."""
        here = [each for each in victims if each.host_id == host.id]
        alone = GangWants(least=1, most=wants.least, same_host=wants.same_host)

        def members(gone: Sequence[Victim]) -> int:
            return len(self._chosen(alone, [(need, host)], None, gone))

        return bool(here) and members(here) > members([])

    def _whole(self, victim: Victim, job_id: str) -> list[Victim]:
        """Return all that the job holds of which the victim is a part."""
        members = self._preemption.spares.hosts_of(job_id)
        found = [
            Victim(host_id, held, spare=False)
            for member_id, host_id in members.items()
            if (held := self._machine(host_id).held.get(member_id)) is not None
        ]
        return found or [victim]

    def _chosen(
        self,
        wants: GangWants,
        asked: Sequence[tuple[Need, Host]],
        between: Between | None,
        victims: Sequence[Victim],
    ) -> Sequence[object]:
        """Return the places that a gang gets when the victims and the jobs that are being stopped are gone.

        If it has no room even then, there are none.
        """
        gone: dict[str, list[Holding]] = {}
        for victim in victims:
            gone.setdefault(victim.host_id, []).append(victim.held)

        def answer(need: Need, host: Host, beside: Sequence[Holding]) -> tuple[int, ...] | Waits:
            going = [*self._preemption.leaving(host.id), *gone.get(host.id, ())]
            held = [*self._held_before(need, host, going), *beside]
            return self._machine(host.id).place(need, host, held, leaving=going)

        found = choose_hosts(wants, asked, answer, between)
        return () if isinstance(found, Refused) else found
