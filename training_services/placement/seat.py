"""Interface of a machine that takes jobs of one experiment, as the queue of waiting jobs uses it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from training_services.placement.needs import Host, Wants

__all__ = ["Seat"]


class Seat(Protocol):
    """Machine that takes jobs of one experiment.

    ``jobs``: ids of the experiment's jobs there; ``wants``: resources that jobs need there.
    """

    wants: Wants

    @property
    def id(self) -> str:
        """Id of the keeper on the machine."""

    @property
    def host(self) -> Host:
        """Machine of this seat, with the GPUs that the experiment may use there."""

    @property
    def jobs(self) -> Collection[str]: ...

    @property
    def arriving(self) -> bool:
        """True as long as it is not known whether the machine can be reached."""

    def obstacle(self) -> str | None:
        """Return a sentence that says why no job can start on this machine now, or None."""

    def passing_obstacle(self) -> str | None:
        """Return a sentence that says why no job can start now, if no event reports when this changes.

        Else return None. After a sentence, the caller must check again later.
        """
