"""Identity of the keeper that calls for a host: its directory, boot, start number and newest call."""

from __future__ import annotations

from training_services.base import KnownKeeper
from training_services.keepers.request import Request

__all__ = ["ADDRESS", "LAUNCH", "Caller", "Key", "Refused", "address_of"]

LAUNCH = ":"  # in the uid of a "pod" that is one launch of a batch job: a second launch is of no use
ADDRESS = "="  # in such a uid, before the address at which members of gangs reach that host

Key = tuple[str, ...]  # key of a fact; a call of a keeper is answered after the commit of its facts


class Refused(Exception):
    """Error: the server refuses a keeper that belongs to another server, database or directory.

    ``reason`` is a short code for the refusal, such as "fenced", which is sent to the keeper.
    """

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def address_of(instance: str | None) -> str:
    """Return where members of gangs reach the host of the keeper with this instance; "" if unknown."""
    return (instance or "").rpartition(".")[0].partition(ADDRESS)[2]


class Caller:
    """Identity of the keeper of one host, by which the server accepts or refuses calls.

    ``instance`` names the keeper's directory and ``boot_id`` its machine's boot; both are None before its
    first call. ``ready``: the keeper has called since the server opened the experiment, so jobs may be
    placed.
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
        """Raise Refused if this server must not answer the keeper's request.

        ``newest``: True if the keeper has read the latest version of its ``manager.json``.
        """
        if request.db_id_seen not in (None, self.db_id):
            sentence = "This keeper has applied an answer from another database of the experiment."
            raise Refused("database", sentence)
        if request.m_epoch_seen > self.m_epoch:
            sentence = "This keeper has applied an answer from a later start of the experiment's runner."
            raise Refused("fenced", sentence)
        if request.instance in self._retired:
            raise Refused("instance", "The directory of this keeper was replaced by another one.")
        if self.instance is not None and _pod(self.instance) != _pod(request.instance):
            if LAUNCH in _pod(request.instance):
                # A batch system may launch a job twice, and a job may be submitted twice by mistake.
                raise Refused("instance", "Another launch of this keeper's allocation has called before.")
            # The cluster replaces a pod that is being deleted at once, although its keeper still reports.
            raise Refused("pod", "The pod of this keeper replaces one that the server still expects.")
        if request.instance != self.instance and not newest:
            # A delayed call from a replaced directory must not count as a new directory.
            raise Refused("turn", "This is a new keeper, and it has read an outdated manager.json.")

    def is_of_an_earlier_start(self, request: Request) -> bool:
        """Return True if the keeper sent the request before the keeper was restarted."""
        return request.instance == self.instance and request.k_epoch < self._k_epoch

    def is_of_a_restart(self, request: Request) -> bool:
        """Return True if the request is the keeper's first call since the keeper was restarted."""
        return request.instance == self.instance and request.k_epoch > self._k_epoch

    def replace(self) -> None:
        """Refuse later calls from the keeper's current directory, because another directory has replaced
        it.
        """
        if self.instance is not None:
            self._retired.add(self.instance)
            self._k_epoch = -1
            self.ready = False

    def begins(self, request: Request) -> bool:
        """Record the number of the keeper's start from the request.

        Return True if this number is higher than all earlier ones.
        """
        if request.k_epoch <= self._k_epoch:
            return False
        self._k_epoch = request.k_epoch
        self._reported = self._waited = -1
        return True

    def bind(self, instance: str, boot_id: str) -> None:
        """Accept calls only from this directory (``instance``) and boot of the keeper from now on.

        The keeper's calls are answered when the core has committed this (as the fact KeeperBound).
        """
        self.instance, self.boot_id = instance, boot_id
        self.binding = ("bound", instance, boot_id)

    def bound_committed(self, instance: str, boot_id: str) -> None:
        """Record that the core has committed from which directory and boot the keeper calls."""
        if self.binding == ("bound", instance, boot_id):
            self.binding = None

    def is_newest(self, request: Request) -> bool:
        """Return True if this is the newest call of its kind. The kinds are calls that report something and
        calls that only wait for commands.

        The calls of each kind are counted separately, because each kind uses a connection of its own.
        """
        if request.news:
            newest = request.sync_no > self._reported
            self._reported = max(self._reported, request.sync_no)
        else:
            newest = request.sync_no > self._waited
            self._waited = max(self._waited, request.sync_no)
        return newest


def _pod(instance: str) -> str:
    """Return the uid of the pod in which a keeper's directory is; "" if it is in no pod."""
    pod, dot, _ = instance.rpartition(".")
    return pod if dot else ""
