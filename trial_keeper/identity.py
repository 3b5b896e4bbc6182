"""What a keeper knows of itself when it starts."""

from __future__ import annotations

from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Callable


class Identity(NamedTuple):
    """What the keeper knows of itself.

    ``idle_s``: so long without server or live attempt, and it leaves; ``unreported_s``: the same while there
    are ended ones that the server has not heard of, and that would go with it; None: they stay on its disk.
    ``orphan_s``: so long without the server, and its attempts are stopped; None: they run on. ``host``: the
    ``host`` of ``trial_keeper.wire``, asked for when it is to be told; None: not known. ``ending``: the host
    was told to end and gives what runs this grace in seconds; None: it was not told.
    """

    instance: str
    boot_id: str
    idle_s: float = 600.0
    unreported_s: float | None = None
    orphan_s: float | None = None
    status: str | None = None
    jitter: Callable[[], float] = lambda: 0.5
    lease: tuple[int, float] = (0, 0.0)  # its number and its end, as found
    host: Callable[[], dict[str, Any] | None] = lambda: None
    ending: float | None = None
