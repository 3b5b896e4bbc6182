"""Identity and limits of a keeper at its start."""

from __future__ import annotations

from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Callable

    from trial_keeper.wire import HostCapacity


class Identity(NamedTuple):
    """Identity and limits of a keeper.

    ``idle_s``: the keeper leaves after this time without server and live attempt. ``unreported_s`` replaces
    ``idle_s`` while it holds unreported ends that would be lost with it; None: they stay on its disk.
    ``orphan_s``: attempts are stopped after this time without the server; None: they continue. ``host``
    returns the ``host`` of ``trial_keeper.wire``, None if unknown. ``ending``: grace in seconds that a host
    which is shutting down gives to attempts; None: the host stays up.
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
    ending: float | None = None
