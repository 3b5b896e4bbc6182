"""Identity of the keeper that calls for a host: its directory, boot, start number and newest call."""

from __future__ import annotations

from training_services.base import KnownKeeper
from training_services.keepers.request import Request

__all__ = ["Caller", "Key", "Refused"]

Key = tuple[str, ...]  # key of a fact; a call of a keeper is answered after the commit of its facts


class Refused(Exception):
    """Refusal of a keeper that belongs to another server, database or directory.

    ``reason`` is the word of the protocol for the refusal.
    """

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Caller:
    """Identity of the keeper of one host.

    ``instance`` names the keeper's directory and ``boot_id`` its machine's boot; both are None before its
    first call. ``ready``: this instance has called since the runner began, so jobs may be placed on the host.
    """

    def __init__(self, known: KnownKeeper, *, db_id: str, m_epoch: int) -> None:
        self.keeper_id = known.keeper_id
        self.instance = known.instance
        self.boot_id = known.boot_id
        self.db_id = db_id
        self.m_epoch = m_epoch
        self.ready = False
        self.binding: Key | None = None  # key of the KeeperBound fact that is not committed yet
        self._retired = set(known.retired)  # instances of the keeper's directory that were replaced
        self._k_epoch = -1
        self._reported = -1  # sync_no of the last request that reported something
        self._waited = -1  # sync_no of the last request that only waited for commands

    def check(self, request: Request, *, newest: bool) -> None:
        """Raise Refused if this server must not answer the request.

        ``newest``: True if the keeper has read the latest version of ``manager.json``.
        """
        if request.db_id_seen not in (None, self.db_id):
            raise Refused("database", "This keeper has obeyed another database of the experiment.")
        if request.m_epoch_seen > self.m_epoch:
            raise Refused("fenced", "This keeper has obeyed a later start of the experiment's runner.")
        if request.instance in self._retired:
            raise Refused("instance", "The directory of this keeper was replaced by another one.")
        if request.instance != self.instance and not newest:
            # A delayed call from a replaced directory must not count as a new directory.
            raise Refused("turn", "This is a new keeper, and manager.json was written since it has read it.")

    def is_of_an_earlier_start(self, request: Request) -> bool:
        """Return True if the keeper sent the request before it was restarted."""
        return request.instance == self.instance and request.k_epoch < self._k_epoch

    def is_of_a_restart(self, request: Request) -> bool:
        """Return True if this is the keeper's first call since its restart."""
        return request.instance == self.instance and request.k_epoch > self._k_epoch

    def replace(self) -> None:
        """Retire the current instance of the keeper's directory, because another instance calls."""
        if self.instance is not None:
            self._retired.add(self.instance)
            self._k_epoch = -1
            self.ready = False

    def begins(self, request: Request) -> bool:
        """Record the start number of the request.

        Return True if it is higher than all earlier start numbers.
        """
        if request.k_epoch <= self._k_epoch:
            return False
        self._k_epoch = request.k_epoch
        self._reported = self._waited = -1
        return True

    def bind(self, instance: str, boot_id: str) -> None:
        """Make this instance of the keeper's directory the current one.

        Its calls wait until the fact is committed.
        """
        self.instance, self.boot_id = instance, boot_id
        self.binding = ("bound", instance, boot_id)

    def bound_committed(self, instance: str, boot_id: str) -> None:
        """Record that the binding of the instance is committed."""
        if self.binding == ("bound", instance, boot_id):
            self.binding = None

    def is_newest(self, request: Request) -> bool:
        """Return True if no later call of the same kind has arrived. The two kinds are calls with news and
        calls without.

        The kinds are counted separately, because they use separate connections.
        """
        if request.news:
            newest = request.sync_no > self._reported
            self._reported = max(self._reported, request.sync_no)
        else:
            newest = request.sync_no > self._waited
            self._waited = max(self._waited, request.sync_no)
        return newest
