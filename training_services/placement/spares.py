"""Members of running gangs that may be given up for jobs that wait: those beyond the least number.

A gang gives up members only if it can continue from a checkpoint. The records are only in memory. After a
restart of the server they are made again from the running gangs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from training_services.base import experiment_of_job, job_of_member, trial_of_job

__all__ = ["Shrinkable", "Spares"]


class Shrinkable(NamedTuple):
    """Running gangs of an experiment that can continue with fewer members, but not with fewer than ``least``.

    ``can_shrink(job_id)`` returns False if a gang has ended, has saved nothing, or has a member whose keeper
    is silent. ``shrink(job_id, leaving, by)`` has a gang continue without the members with these numbers, for
    a waiting job of the experiment ``by``.
    """

    least: int
    can_shrink: Callable[[str], bool]
    shrink: Callable[[str, tuple[int, ...], str], None]


@dataclass(slots=True)
class _Gang:
    """Gang that has places. ``hosts``: id of each member -> its machine. ``leaving``: members to give up.

    ``kept``: members that have ended, and whose places are kept for the next attempt -> their machines.
    """

    experiment_id: str
    hosts: dict[str, str]
    leaving: set[str] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)


class Spares:
    """Table of the running gangs, with the members that they give up.

    When a gang gives up members, all of them end. The places of the others are kept until the next attempt is
    submitted, or until the end of the gang is committed without one.

    ``priority`` returns the priority of an experiment.
    """

    def __init__(self, priority: Callable[[str], int]) -> None:
        self._priority = priority
        self._shrinkable: dict[str, Shrinkable] = {}  # by experiment
        self._gangs: dict[str, _Gang] = {}
        # trial whose gang gives up members -> this gang, until its end is committed
        self._shrinking: dict[tuple[str, str], _Gang] = {}

    def allow(self, experiment_id: str, gangs: Shrinkable) -> None:
        """Allow that gangs of the experiment give up members."""
        self._shrinkable[experiment_id] = gangs

    def close(self, experiment_id: str) -> dict[str, str]:
        """Forget the gangs of the experiment, because its service is closed. Return the places that are kept
        for them: members, and their machines.
        """
        self._shrinkable.pop(experiment_id, None)
        gone = [job_id for job_id, gang in self._gangs.items() if gang.experiment_id == experiment_id]
        for job_id in gone:
            del self._gangs[job_id]
        trials = [trial for trial, gang in self._shrinking.items() if gang.experiment_id == experiment_id]
        return {key: value for trial in trials for key, value in self._shrinking.pop(trial).kept.items()}

    # ---- what happens to gangs ----------------------------------------------------------------------------

    def placed(self, experiment_id: str, job_id: str, hosts: Mapping[str, str]) -> None:
        """Record the members of a gang, with their machines."""
        self._gangs[job_id] = _Gang(experiment_id, dict(hosts))

    def held(self, experiment_id: str, member_id: str, host_id: str) -> None:
        """Record a member that was placed before the server's restart."""
        gang = self._gangs.setdefault(job_of_member(member_id)[0], _Gang(experiment_id, {}))
        gang.hosts[member_id] = host_id

    def ended(self, member_id: str) -> None:
        """Record the end of a member: all other members of its gang end, too."""
        self._gangs.pop(job_of_member(member_id)[0], None)

    def keeps(self, member_id: str, host_id: str) -> bool:
        """Return whether the place of a member that has ended is kept for the next attempt."""
        gang = self._shrinking.get(_trial_of(member_id))
        if gang is None or member_id in gang.leaving:
            return False
        gang.kept[member_id] = host_id
        return True

    def over(self, job_id: str) -> dict[str, str]:
        """Record that no more places are kept for the trial of the job. Return those that were: members, and
        their machines.
        """
        gang = self._shrinking.pop(_trial_of(job_id), None)
        return {} if gang is None else gang.kept

    # ---- giving up members --------------------------------------------------------------------------------

    @property
    def is_shrinking(self) -> bool:
        """Return whether a gang gives up members, and its next attempt is not submitted yet."""
        return bool(self._shrinking)

    def hosts_of(self, job_id: str) -> Mapping[str, str]:
        """Return the machine of each member of a gang; empty for a job without members."""
        gang = self._gangs.get(job_id)
        return {} if gang is None else gang.hosts

    def is_leaving(self, member_id: str) -> bool:
        """Return whether the gang of the member continues without it."""
        gang = self._shrinking.get(_trial_of(member_id))
        return gang is not None and member_id in gang.leaving

    def stays(self, member_id: str) -> bool:
        """Return whether the gang of the member gives up others, and continues on this member's machine."""
        gang = self._shrinking.get(_trial_of(member_id))
        return gang is not None and member_id not in gang.leaving

    def for_job_of(
        self, experiment_id: str, hosts: Collection[str], *, first: str | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yield machine and id of the members on these machines that may be given up together for a waiting
        job of the experiment.

        The gangs of the lowest priority come first, and among equals the one that has the most members to
        spare. Of a gang, the member on the machine ``first`` comes first, and then those with the highest
        numbers. The leader stays, because its machine has the checkpoints.
        """
        priority = self._priority(experiment_id)
        found: list[tuple[tuple[int, int], str, int]] = []
        for job_id, gang in self._gangs.items():
            shrinkable = self._shrinkable.get(gang.experiment_id)
            spare = 0 if shrinkable is None else len(gang.hosts) - shrinkable.least
            own = self._priority(gang.experiment_id)
            if shrinkable is None or spare <= 0 or gang.leaving or own > priority:
                continue
            if any(each in hosts for each in gang.hosts.values()) and shrinkable.can_shrink(job_id):
                found.append(((own, -spare), job_id, spare))
        for _, job_id, spare in sorted(found, key=lambda each: each[0]):
            members = [
                (host_id != first, -number, host_id, member_id)
                for member_id, host_id in self._gangs[job_id].hosts.items()
                if (number := job_of_member(member_id)[1]) and host_id in hosts
            ]
            yield from ((host_id, member_id) for _, _, host_id, member_id in sorted(members)[:spare])

    def give_up(self, members: Collection[str], by: str) -> None:
        """Have gangs continue without these members, for a waiting job of the experiment ``by``."""
        of_gangs: dict[str, list[int]] = {}
        for member_id in members:
            job_id, number = job_of_member(member_id)
            of_gangs.setdefault(job_id, []).append(number)
            self._gangs[job_id].leaving.add(member_id)
        for job_id, numbers in of_gangs.items():
            gang = self._gangs[job_id]
            self._shrinking[_trial_of(job_id)] = gang
            self._shrinkable[gang.experiment_id].shrink(job_id, tuple(sorted(numbers)), by)


def _trial_of(job_id: str) -> tuple[str, str]:
    """Return experiment and trial of a job or a member."""
    return experiment_of_job(job_id), trial_of_job(job_id)[0]
