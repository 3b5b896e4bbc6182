"""Table of the lines of waiting jobs of all experiments: the machines where each waits, and their order.

A line consists of the waiting jobs of one experiment that need the same. Only its first job asks for places.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from training_services.placement.needs import Host, Need

__all__ = ["Key", "WaitingLines"]

Key = tuple[str, Hashable]  # experiment, and the experiment's name of the line


class _Head(NamedTuple):
    """First job of a line. Heads are ordered by arrival."""

    arrival: int
    job_id: str


class _Wish(NamedTuple):
    """Need of a line's first job on one machine."""

    arrival: int
    need: Need
    host: Host


@dataclass(slots=True)
class _Line:
    """Line of waiting jobs. ``head`` None: no job waits now, but machines that refused are remembered.

    ``at``: machines that have refused the first job -> whether its resources can be kept there until trials
    end. ``kept_at``: the one machine where later lines of the same experiment leave the resources free.
    """

    head: _Head | None = None
    at: dict[str, bool] = field(default_factory=dict)
    kept_at: str | None = None

    def choose(self) -> None:
        """Choose the machine where the resources are kept, if the present one is no longer suitable."""
        if self.kept_at is None or not self.at.get(self.kept_at, False):
            self.kept_at = next((host_id for host_id, keepable in self.at.items() if keepable), None)


class WaitingLines:
    """All lines of waiting jobs.

    ``contended``: machines that several experiments wait for (used as an ordered set).
    """

    def __init__(self) -> None:
        self.contended: dict[str, None] = {}
        self._lines: dict[Key, _Line] = {}
        self._of: dict[str, dict[Key, None]] = {}  # experiment -> its lines
        self._here: dict[str, dict[Key, tuple[Need, Host]]] = {}  # machine -> lines that wait there

    def wait(self, need: Need, host: Host, *, keepable: bool) -> bool:
        """Record that the machine has refused the first job of a line.

        ``keepable``: the end of trials will free the resources, so that they can be kept for the job. Return
        True if the resources are kept for this job now instead of another job of its experiment, so that the
        machine may have room for jobs of other experiments.
        """
        key = (need.experiment_id, need.line)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
            self._of.setdefault(need.experiment_id, {})[key] = None
        line.head = line.head or _Head(need.arrival, need.job_id)
        line.at[host.id] = keepable
        line.choose()
        here = self._here.setdefault(host.id, {})
        new = key not in here
        here[key] = need, host
        if not _is_shared(here):
            return False
        self.contended[host.id] = None
        return new and any(
            other != key and other in here and (head := self._lines[other].head) and head > line.head
            for other in self._of[need.experiment_id]
        )

    def leave(self, key: Key, host_id: str) -> bool:
        """Record that the line no longer waits for the machine. Return False if it did not wait there."""
        line = self._lines.get(key)
        if line is None or host_id not in line.at:
            return False
        del line.at[host_id]
        line.choose()
        if not line.at:
            del self._lines[key]
            del self._of[key[0]][key]
            if not self._of[key[0]]:
                del self._of[key[0]]
        here = self._here[host_id]
        del here[key]
        if not here:
            del self._here[host_id]
        if not _is_shared(here):
            self.contended.pop(host_id, None)
        return True

    def withdraw(self, keys: Iterable[Key], *, host_id: str | None = None) -> list[str]:
        """Record that lines no longer wait for this machine; None: for any machine. Return the machines."""
        gone: dict[str, None] = {}
        for key in list(keys):
            line = self._lines.get(key)
            at = [] if line is None else list(line.at) if host_id is None else [host_id]
            gone |= {each: None for each in at if self.leave(key, each)}
        return list(gone)

    def experiments_at(self, host_id: str) -> set[str]:
        """Return the experiments with lines that wait for the machine."""
        return {experiment_id for experiment_id, _ in self._here.get(host_id, ())}

    def need_at(self, key: Key, host_id: str) -> tuple[Need, Host] | None:
        """Return what the line needs on the machine; None if it does not wait there."""
        return self._here.get(host_id, {}).get(key)

    def of(self, experiment_id: str) -> list[Key]:
        return list(self._of.get(experiment_id, ()))

    def waits(self, experiment_id: str) -> bool:
        """Return True if machines have refused jobs of the experiment."""
        return experiment_id in self._of

    def pass_on(self, key: Key, head: tuple[int, str] | None) -> list[str]:
        """Make another job the first one of the line; None: no job waits any more.

        Return the machines on which this may let jobs of other lines start.
        """
        line = self._lines.get(key)
        if line is None:
            return []
        before, line.head = line.head, None if head is None else _Head(*head)
        if before is None or (head is not None and len(self._of[key[0]]) == 1):
            return []
        changed = [host_id for host_id in line.at if host_id in self.contended]
        if line.kept_at is not None and len(self._here[line.kept_at]) > 1:
            changed.append(line.kept_at)
        return changed

    def ahead(
        self, need: Need, host_id: str, turn: Callable[[str], tuple[int, ...]]
    ) -> list[list[tuple[Need, Host]]]:
        """Return the needs of waiting jobs for which resources of the machine are kept from this job.

        The result has an item for each experiment whose turn comes before, in order. The first need of an
        item that can be kept is kept. Then follow earlier lines of the job's own experiment.
        """
        here = self._here.get(host_id)
        own = need.experiment_id, need.line
        if not here or (len(here) == 1 and own in here):
            return []
        number: dict[str, int] = {}
        wishes: dict[str, list[_Wish]] = {}
        for key, (wanted, host) in here.items():
            number.setdefault(key[0], len(number))
            line = self._lines[key]
            if line.head is None or key == own:
                continue
            if key[0] == need.experiment_id and (line.kept_at != host_id or line.head.arrival > need.arrival):
                continue
            wish = _Wish(line.head.arrival, replace(wanted, job_id=line.head.job_id), host)
            wishes.setdefault(key[0], []).append(wish)

        def order(name: str) -> tuple[int, ...]:
            return *turn(name), number.get(name, len(number))

        mine = _in_order(wishes.pop(need.experiment_id, []))
        names = sorted(wishes, key=order)
        until = order(need.experiment_id)
        return [_in_order(wishes[name]) for name in names if order(name) < until] + [[each] for each in mine]


def _is_shared(here: Iterable[Key]) -> bool:
    """Return True if several experiments wait for the machine."""
    return len({experiment_id for experiment_id, _ in here}) > 1


def _in_order(wishes: list[_Wish]) -> list[tuple[Need, Host]]:
    wishes.sort(key=lambda wish: wish.arrival)
    return [(wish.need, wish.host) for wish in wishes]
