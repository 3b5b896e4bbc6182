"""Queues that are told when resources of machines may have become free."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Freed", "Listeners"]

Freed = Callable[[Collection[str] | None], None]


@dataclass(frozen=True, slots=True)
class _Listener:
    experiment_id: str
    freed: Freed


class Listeners:
    """Functions of the queues, which are called with the machines that have changed; None: all machines.

    ``turn`` returns a key that sorts experiments: the one whose turn is next is asked first. ``contended``:
    machines that several experiments wait for, in whose order each change may change something.
    """

    def __init__(self, turn: Callable[[str], tuple[int, ...]], contended: Iterable[str]) -> None:
        self._turn, self._contended = turn, contended
        self._listeners: dict[object, _Listener] = {}
        self._changes: list[tuple[str | None, ...]] = []  # changes that are not passed on yet
        self._notifying = False

    def add(self, owner: object, freed: Freed, *, experiment_id: str) -> None:
        """Register the function of a queue (``owner``). It replaces the owner's earlier one."""
        self._listeners[owner] = _Listener(experiment_id, freed)

    def remove(self, owner: object) -> str | None:
        """Forget the function of a queue. Return its experiment; None if there was none."""
        listener = self._listeners.pop(owner, None)
        return None if listener is None else listener.experiment_id

    def notify(self, *hosts: str | None) -> None:
        """Call all functions with the changed machines, and with machines that several experiments wait for.

        A change on one machine can change whose turn it is on another machine. If a function causes a change,
        the functions are called once more after the present round.
        """
        self._changes.append(hosts)
        if self._notifying:
            return
        self._notifying = True
        try:
            while self._changes:
                changes = [host for each in self._changes for host in each]
                self._changes.clear()
                named = [host for host in changes if host is not None]
                everywhere = len(named) < len(changes)
                self._call(None if everywhere else list(dict.fromkeys([*named, *self._contended])))
        finally:
            self._notifying = False

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Call no function before the end of the block, so that several changes count as one."""
        before, self._notifying = self._notifying, True
        try:
            yield
        finally:
            self._notifying = before
        if self._changes and not before:
            self.notify()

    def _call(self, changed: Collection[str] | None) -> None:
        for listener in sorted(self._listeners.values(), key=lambda each: self._turn(each.experiment_id)):
            listener.freed(changed)
