"""Identity and limits that a keeper gets at its start."""

from __future__ import annotations

from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Callable

    from trial_keeper.attempt.ending import Ending
    from trial_keeper.wire import HostCapacity


class Identity(NamedTuple):
    """Identity that a keeper shows to the server, and the keeper's time limits.

    ``idle_s``: the keeper exits after this time without an answer of the server and without a running
    attempt. ``unreported_s`` replaces ``idle_s`` while the keeper has unreported ends of attempts that would
    be lost at its exit; None: unreported ends stay on disk. ``orphan_s``: the keeper stops all attempts after
    this time without an answer of the server; None: attempts continue. ``status``: errors of the keeper
    itself at its start.

    ``host`` returns the resources of the machine (``host`` of ``trial_keeper.wire``), None if unknown.
    ``ending``: order to end that the host got, because it shuts down; None: the host stays up. ``may_end``:
    the host can get such an order, because it is a container or a job of a batch system.
    """

    instance: str
    boot_id: str
    idle_s: float = 600.0
    unreported_s: float | None = None
    orphan_s: float | None = None
    status: str | None = None
    jitter: Callable[[], float] = lambda: 0.5
    lease: tuple[int, float] = (0, 0.0)  # number and end, from the lease file
    host: Callable[[], HostCapacity | None] = lambda: None
    ending: Ending | None = None
    may_end: bool = False
