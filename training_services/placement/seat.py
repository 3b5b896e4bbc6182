"""Machine that takes jobs of one experiment, in the form that the queue uses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from training_services.placement.needs import Host, Wants

__all__ = ["Seat"]


class Seat(Protocol):
    """Machine for jobs; ``jobs`` has the ids of the experiment's jobs there, ``wants`` what each needs."""

    wants: Wants

    @property
    def host(self) -> Host:
        """Machine and the part of it that the experiment may use."""

    @property
    def jobs(self) -> Collection[str]: ...

    @property
    def arriving(self) -> bool:
        """True while it is not known yet whether the machine can be reached."""

    def obstacle(self) -> str | None:
        """Return a sentence that says why no job can start there now, or None."""

    def passing_obstacle(self) -> str | None:
        """Return an obstacle whose end no event reports, or None. The caller must check again later."""
