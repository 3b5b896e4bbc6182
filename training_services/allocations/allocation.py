"""Interface to a host that an engine creates for jobs and removes after them."""

from __future__ import annotations

import abc

from training_services.keepers.host import KeeperHost
from training_services.keepers.seat import KeeperSeat

__all__ = ["Allocation", "allocation_of"]


class Allocation(KeeperHost):
    """Host that an engine creates for one keeper of an experiment, such as a pod. Each engine has a subclass.

    ``job_id``: the only job, or member of a gang, that it runs; None: it runs many jobs. ``over``: how it has
    ended; None while it may run. ``spoken``: its keeper has called, so it must not be created again.
    ``leaves_at_once``: the experiment ends, so the server does not wait for the allocation's end.
    ``obeys``: the keeper has received the order to exit.
    """

    passing = True
    keeps_files = False
    job_id: str | None
    over: object | None = None
    spoken = False
    leaves_at_once = False
    obeys = False

    def heard(self) -> None:
        """Record that the allocation's keeper has called."""
        self.spoken = True

    @property
    def has_node(self) -> bool:
        """True if the allocation has a node of the cluster, and holds resources there."""
        return self.spoken

    @property
    def runs(self) -> bool:
        """True if the allocation has started on its node."""
        return self.spoken

    @abc.abstractmethod
    async def destroy(self) -> None:
        """Let the engine end the allocation, with all that runs there. Raises ServiceError."""

    @property
    @abc.abstractmethod
    def doubt(self) -> str | None:
        """Sentence that says why the allocation may no longer run; None if there is no sign of that."""


def allocation_of(seat: KeeperSeat) -> Allocation:
    """Return the allocation of a seat, which is a host with its keeper."""
    assert isinstance(seat.keeper_host, Allocation)
    return seat.keeper_host
