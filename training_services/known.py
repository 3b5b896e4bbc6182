"""What the core knows of keepers and machines when it opens a training service. ``base`` re-exports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_services.checkpoint_events import CheckpointsPruned

__all__ = ["KnownKeeper", "KnownKeepers", "KnownMachine"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeeper:
    """Keeper that has already worked for this experiment before the server was restarted."""

    keeper_id: str
    token_sha256: str
    instance: str | None
    boot_id: str | None
    # highest number of a command to this instance of the keeper that is committed in the database
    last_cmd: int
    retired: tuple[str, ...] = ()  # earlier directories (instances) of the keeper, whose reports are ignored
    silent: bool = False  # True: the keeper was reported as silent, and has not called since
    prunes: int = 0  # number of the facts CheckpointsPruned about the keeper
    # what it may not have deleted: for each job the number of the last of these facts, and all in one
    unpruned: tuple[tuple[int, CheckpointsPruned], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMachine:
    """Machine whose state was changed while the experiment ran: added, draining or removed.

    ``added`` is the machine's configuration, as in the fact MachineAdded.
    """

    keeper_id: str
    added: Mapping[str, Any] | None = None
    draining: bool = False
    removing: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeepers:
    """Keepers and machines in the experiment's database, with the identity of the database.

    ``restored``: the database was once replaced by an older copy, so keepers may have carried out commands
    that the database does not contain. ``copies``: job and number of each checkpoint of which the server has
    a copy.
    """

    db_id: str
    m_epoch: int
    keepers: tuple[KnownKeeper, ...] = ()
    machines: tuple[KnownMachine, ...] = ()
    restored: bool = False
    copies: frozenset[tuple[str, int]] = frozenset()
