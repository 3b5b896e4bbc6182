"""How a platform reaches a machine whose jobs are run by a keeper."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from training_services.placement import Host

__all__ = ["KeeperHost"]


class KeeperHost(abc.ABC):
    """A machine with a keeper of this experiment, as its platform reaches it."""

    keeper_id: str
    host: Host

    @abc.abstractmethod
    async def read_manager(self) -> Mapping[str, Any] | None:
        """The keeper's ``manager.json``; None if there is none that can be read."""

    @abc.abstractmethod
    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        """Replace the keeper's ``manager.json``. Raises OSError, ServiceError."""

    @abc.abstractmethod
    async def keep(self) -> None:
        """See to it that the keeper runs; return when it has ended. Raises OSError, ServiceError."""

    @abc.abstractmethod
    async def end(self, *, told: bool) -> None:
        """End the keeper; with ``told`` it was asked to leave and gets some time to go by itself."""

    async def close(self) -> None:
        """Let go of the host; its keeper is left as it is."""
        return None
