"""Error that reports the end of a host."""

from __future__ import annotations

from training_services.base import Cause, ServiceError

__all__ = ["HostGone"]

_OF_THE_PLATFORM = {Cause.INFRASTRUCTURE, Cause.PREEMPTED}


class HostGone(ServiceError):
    """Error: the host no longer exists, and neither do the jobs that ran on it. ``cause``: why it ended."""

    def __init__(self, reason: str, cause: Cause = Cause.INFRASTRUCTURE) -> None:
        super().__init__(reason)
        self.cause = cause

    @property
    def failed(self) -> bool:
        """True if the jobs caused the end themselves, for example because they used too much memory.

        A retry on another host may end in the same way.
        """
        return self.cause not in _OF_THE_PLATFORM
