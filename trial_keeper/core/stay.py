"""Decides when the keeper exits: without the server, without attempts, or when its host shuts down."""

from __future__ import annotations

from trial_keeper.core import effects as fx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

    from trial_keeper.core.held import Held
    from trial_keeper.core.identity import Identity
    from trial_keeper.core.stops import Stops

LAST_WORDS_S = 5.0  # shortest wait for the server to confirm the ends on a host that shuts down
MARGIN_S = 5.0  # the keeper exits this long before all processes of a host that shuts down are killed
DONE = "the host is about to shut down"


class Stay:
    """Decides when the keeper exits, and when it stops attempts because the server does not answer.

    ``heard_at``: time of the server's last answer or, before the first answer, of the keeper's start.
    ``copying``: by its last answer, the server still has to copy files from this host. ``ending``: the host
    shuts down.
    """

    def __init__(self, identity: Identity, held: Held, stops: Stops) -> None:
        self._identity = identity
        self._held = held
        self._stops = stops
        self.heard_at: float | None = None
        self.leaving = False
        self.copying = False
        self.ending = False
        self._until = 0.0  # time at which a host that shuts down kills all its processes
        self._said = False  # True: the log has that the keeper stays for copies
        self._known = False  # True: the server has answered a call that said that the host shuts down
        self._idle_since: float | None = None  # on a host that shuts down: time since which no attempt lives

    def leave(self, reason: str, *, clear: bool = False) -> None:
        """Order the keeper's exit, unless the exit is already ordered."""
        if not self.leaving:
            self.leaving = True
            self._held.out.append(fx.Leave(reason, clear))

    def answered(self, now: float, *, stay: bool, ending: bool) -> None:
        """Apply an answer of the server. ``stay``: the server still has to copy files from this host.

        ``ending``: the answered call has said that the host shuts down.
        """
        self.heard_at = now
        self._known = self._known or ending
        self.copying = stay

    def host_ends(self, until: float) -> None:
        """Prepare the exit, because the host shuts down and kills all its processes at the time ``until``."""
        self.ending, self._until = True, until

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
            self.leave(self._alone())

    def _alone(self) -> str:
        """Return why the keeper exits without an order of the server."""
        if any(attempt.orphaned for attempt in self._held.attempts.values()):
            limit = f"{self._identity.orphan_s:g} s"
            return f"its trials were stopped, because the server had not answered for {limit}"
        return "no attempt is live and no server could be reached"

    def wind_up(self, now: float) -> None:
        """Order the keeper's exit when its work is done, because its host shuts down.

        The keeper waits until the server has confirmed the ends of all attempts, and has copied the files
        that it needs from here, but only until MARGIN_S before the host kills all its processes, or
        LAST_WORDS_S after the last end.
        """
        if self._held.live():
            return
        if self._idle_since is None:
            self._idle_since = now
        if self._heard and not self.copying:
            self.leave(DONE)
        elif self._heard and not self._said:
            self._said = True
            left = max(0.0, self._until - MARGIN_S - now)
            sentence = f"the server copies checkpoints from this host, and has {left:.0f} s for that"
            self._held.out.append(fx.Say(sentence))
        leave_at = self._leave_at()
        if leave_at is None or now < leave_at:
            return
        if self._held.attempts:
            self.leave(f"{DONE}, but the server has not received the ends of all trials")
        elif not self._known:
            self.leave(f"{DONE}, and the server does not answer")
        else:
            self.leave(f"{DONE}, before the server has copied all checkpoints that it needs from here")

    @property
    def _heard(self) -> bool:
        """True if the server has confirmed all ends, and has answered since the host began to shut down."""
        return self._known and not self._held.attempts

    def _leave_at(self) -> float | None:
        """Return the time at which the keeper exits, even if its work is not done, as its host shuts down."""
        if self._idle_since is None or self._held.live():
            return None
        return max(self._idle_since + LAST_WORDS_S, self._until - MARGIN_S)

    def times(self) -> Iterator[float]:
        """Yield the times at which ``tick`` or ``wind_up`` has work."""
        for at in (self._idle_at(), self._orphaned_at(), self._leave_at()):
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
