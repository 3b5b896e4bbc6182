"""Notices of shims, which arrive through the keeper's wake-up pipe."""

from __future__ import annotations

from trial_keeper.actions.loop import now
from trial_keeper.attempt import claim
from trial_keeper.streams import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trial_keeper.core.core import KeeperCore
    from trial_keeper.core.effects import Effect

CROWDED = 1 << 15  # characters of notices read at once: half of what the pipe holds


class Notices:
    """Reader of the pipe, which passes the notices to the core."""

    def __init__(self, wake: int, core: KeeperCore) -> None:
        self._lines = Lines(wake)
        self._core = core

    def read(self) -> list[Effect]:
        """Read notices. Each shim sends its attempt's job id and the lines of its claim file.

        If the pipe was full, some shims could not send, so every attempt is checked.
        """
        effects = []
        lines = dict.fromkeys(self._lines.lines())
        for line in lines:
            job, _, text = line.partition(" ")
            told = claim.parse(f"{text}\n".replace(claim.SEPARATOR, "\n").encode()) if text else None
            effects += self._core.notified(now(), job, told)
        if sum(map(len, lines)) >= CROWDED:
            for job in list(self._core.attempts):
                effects += self._core.notified(now(), job)
        return effects
