"""Inventory of a keeper's attempts.

The server requests an inventory once, and again while unwanted attempts may run there.
"""

from __future__ import annotations

from collections.abc import Callable

from training_services.keepers.request import Request

__all__ = ["Inventory"]


class Inventory:
    """Attempts that a keeper has. ``named``: the keeper has listed all its attempts to this runner."""

    def __init__(self) -> None:
        self.named = False
        self._asked = False
        self._ask_again = False
        self._unwanted: set[str] = set()

    @property
    def unwanted(self) -> bool:
        """True while attempts may still run there that belong to no job. The keeper is asked to stop them."""
        return bool(self._unwanted)

    @property
    def due(self) -> bool:
        """True if the keeper must be asked for its attempts at once."""
        return self._ask_again or not (self.named or self._asked)

    def lists(self, job_id: str) -> bool:
        """Return True if the attempt may still run on the host although no job owns it."""
        return job_id in self._unwanted

    def doubt(self, job_id: str) -> None:
        """Record an attempt that the server has given up and that may still run."""
        if job_id not in self._unwanted:
            self._unwanted.add(job_id)
            self._ask_again = True

    def clear(self) -> None:
        """Forget all attempts, because the keeper's directory was deleted and created again."""
        self._unwanted.clear()

    def take(self, request: Request, is_wanted: Callable[[str], bool]) -> None:
        """Record the attempts on the host that no job owns.

        Their places are not given to jobs before these attempts end.
        """
        if request.all:
            self.named = True
            self._unwanted.intersection_update(request.attempts)
        for job_id, attempt in request.attempts.items():
            if attempt.final is not None or is_wanted(job_id):
                self._unwanted.discard(job_id)
            else:
                self.doubt(job_id)

    def ask(self, *, waiting: bool) -> bool:
        """Return True if an answer must ask for all attempts.

        ``waiting``: the call only waits for commands.
        """
        self._asked = not self.named
        if waiting:
            self._ask_again = False
        return not self.named or (waiting and self.unwanted)
