"""Objects of the server that every training service gets, such as the table of resources in use."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from training_services.addresses import KeeperDoors, NoDoors
from training_services.keepers.hub import KeeperHub
from training_services.keepers.keeping import Transfers
from training_services.placement.ledger import HostLedger
from training_services.ssh.connection import SshPool

__all__ = ["ServiceTools", "Shared"]


class _Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class Shared:
    """Objects that several services share, by key, such as the place where a cluster's commands run."""

    def __init__(self) -> None:
        self._users: dict[Hashable, tuple[_Closable, int]] = {}

    def take(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object with this key. Make it if no service uses it yet."""
        found, users = self._users.get(key) or (make(), 0)
        self._users[key] = found, users + 1
        return cast(T, found)

    async def leave(self, key: Hashable) -> None:
        """Close the object when nobody uses it any more. Call once for each ``take``."""
        found, users = self._users.pop(key)
        if users > 1:
            self._users[key] = found, users - 1
        else:
            await found.close()


@dataclass(frozen=True, slots=True)
class ServiceTools:
    """Objects of the server that all training services share.

    ``hub`` answers the calls of keepers; ``ledger`` records which jobs hold which resources; ``doors``:
    addresses for keepers; ``machines``: SSH connections; ``transfers`` limits the copies of checkpoints.
    ``shared``: objects that services of one platform share.
    """

    hub: KeeperHub
    ledger: HostLedger
    doors: KeeperDoors = field(default_factory=NoDoors)
    machines: SshPool = field(default_factory=SshPool)
    transfers: Transfers = field(default_factory=Transfers)
    shared: Shared = field(default_factory=Shared)
