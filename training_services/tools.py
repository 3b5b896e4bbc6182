"""Objects of the server that every training service gets, such as the table of resources in use."""

from __future__ import annotations

from dataclasses import dataclass, field

from training_services.addresses import KeeperDoors, NoDoors
from training_services.keepers.hub import KeeperHub
from training_services.keepers.keeping import Transfers
from training_services.placement.ledger import HostLedger
from training_services.ssh.connection import SshPool

__all__ = ["ServiceTools"]


@dataclass(frozen=True, slots=True)
class ServiceTools:
    """Objects of the server that all training services share.

    ``hub`` answers the calls of keepers; ``ledger`` records which jobs hold which resources; ``doors``:
    addresses for keepers; ``machines``: SSH connections; ``transfers`` limits the copies of checkpoints.
    """

    hub: KeeperHub
    ledger: HostLedger
    doors: KeeperDoors = field(default_factory=NoDoors)
    machines: SshPool = field(default_factory=SshPool)
    transfers: Transfers = field(default_factory=Transfers)
