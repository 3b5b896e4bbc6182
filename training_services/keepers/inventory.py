"""Inventory: the attempts that a keeper has, as the keeper lists them.

The server requests the list once after its start, and again while attempts may run there that must end.
"""

from __future__ import annotations

from collections.abc import Callable

from training_services.keepers.request import Request

__all__ = ["Inventory"]


class Inventory:
    """Attempts that a keeper has. ``named``: the keeper has listed all of them since the server's start."""

    def __init__(self) -> None:
        self.named = False
        self._asked = False
        self._ask_again = False
        self._unwanted: set[str] = set()

    @property
    def unwanted(self) -> bool:
        """True while attempts may still run on the host that belong to no job. The keeper must stop them."""
        return bool(self._unwanted)

    @property
    def due(self) -> bool:
        """True if the server must ask the keeper at once for the list of its attempts."""
        return self._ask_again or not (self.named or self._asked)

    def lists(self, job_id: str) -> bool:
        """Return True if the attempt may still run on the host, although it belongs to no job any longer."""
        return job_id in self._unwanted

    def doubt(self, job_id: str) -> None:
        """Record an attempt that counts as lost, but that may still run on the host."""
        if job_id not in self._unwanted:
            self._unwanted.add(job_id)
            self._ask_again = True

    def clear(self) -> None:
        """Forget all attempts, because the keeper's directory was deleted and created again."""
        self._unwanted.clear()

    def take(self, request: Request, is_wanted: Callable[[str], bool]) -> None:
        """Update the list of attempts that run on the host but belong to no job, from the keeper's request.

        No jobs are placed on the host before these attempts have ended.
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
        """Return True if the answer to this call must ask the keeper to list all its attempts.

        ``waiting``: the call reports nothing and only waits for commands.
        """
        self._asked = not self.named
        if waiting:
            self._ask_again = False
        return not self.named or (waiting and self.unwanted)
