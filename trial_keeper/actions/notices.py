"""Notices that shims send to the keeper through the wake-up pipe, a named pipe in the keeper's directory."""

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
    """Reader of the wake-up pipe, which passes the shims' notices to the keeper's core."""

    def __init__(self, wake: int, core: KeeperCore) -> None:
        self._lines = Lines(wake)
        self._core = core

    def read(self) -> list[Effect]:
        """Read the messages that shims have sent; return the effects that the keeper's core orders then.

        Each message has the job id of an attempt and the lines of its claim file. After very many messages,
        the pipe may have been full, so that further shims could not send theirs. Then all attempts are
        checked.
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
