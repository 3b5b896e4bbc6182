"""Decides when the keeper exits: without the server, without attempts, or when its host shuts down."""

from __future__ import annotations

from trial_keeper.core import effects as fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

    from trial_keeper.core.held import Held
    from trial_keeper.core.identity import Identity
    from trial_keeper.core.stops import Stops

LAST_WORDS_S = 5.0  # longest wait for the server to confirm the ends on a host that shuts down


class Stay:
    """Decides when the keeper exits, and when it stops attempts because the server does not answer.

    ``heard_at``: time of the server's last answer or, before the first answer, of the keeper's start.
    """

    def __init__(self, identity: Identity, held: Held, stops: Stops) -> None:
        self._identity = identity
        self._held = held
        self._stops = stops
        self.heard_at: float | None = None
        self.leaving = False
        self._leave_at: float | None = None

    def leave(self, reason: str, *, clear: bool = False) -> None:
        """Order the keeper's exit, unless the exit is already ordered."""
        if not self.leaving:
            self.leaving = True
            self._held.out.append(fx.Leave(reason, clear))

    def tick(self, now: float) -> None:
        """Stop all attempts, or order the keeper's exit, if the server has not answered for too long."""
        orphaned_at = self._orphaned_at()
        if orphaned_at is not None and now >= orphaned_at:
            limit = self._identity.orphan_s
            self._held.out.append(
                fx.Say(f"no answer from the server for {limit:g} s: all trials are stopped")
            )
            self._stops.stop_orphans(now)
        idle_at = self._idle_at()
        if idle_at is not None and now >= idle_at:
            self.leave("no attempt is live and no server could be reached")

    def wind_up(self, now: float) -> None:
        """Order the keeper's exit when its work is done, because its host shuts down.

        The keeper exits after the server has confirmed the ends of all attempts, or LAST_WORDS_S after the
        last end.
        """
        if not self._held.attempts:
            self.leave("the host is about to shut down")
        elif self._leave_at is None and not self._held.live():
            self._leave_at = now + LAST_WORDS_S
        elif self._leave_at is not None and now >= self._leave_at:
            self.leave(
                "the host is about to shut down, but the server has not received the ends of all trials"
            )

    def times(self) -> Iterator[float]:
        """Yield the times at which ``tick`` or ``wind_up`` has work."""
        for at in (self._idle_at(), self._orphaned_at(), self._leave_at):
            if at is not None:
                yield at

    def _idle_at(self) -> float | None:
        if self.heard_at is None or self._held.live():
            return None
        kept = self._identity.unreported_s if self._held.attempts else None
        return self.heard_at + (self._identity.idle_s if kept is None else kept)

    def _orphaned_at(self) -> float | None:
        """Return the time at which attempts are stopped for lack of contact with the server."""
        limit = self._identity.orphan_s
        if limit is None or self.heard_at is None or not self._stops.orphans():
            return None
        return self.heard_at + limit
