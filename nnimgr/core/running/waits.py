"""Waits of a runner for a disk or a platform, and the notices about them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from nnimgr.core.running.notices import Notice

__all__ = ["Wait"]

SHOWN_AFTER_S = 1.0

logger = logging.getLogger(__name__)


class Wait:
    """Wait that is shown and logged when it lasts longer than ``SHOWN_AFTER_S``.

    ``subject``: the notice without the duration, for example "the disk has not completed a commit".
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._since: float | None = None

    @contextlib.contextmanager
    def measured(self, experiment_id: str) -> Iterator[None]:
        """Measure the duration of the block."""
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        timer = loop.call_later(SHOWN_AFTER_S, self._log, experiment_id)
        try:
            yield
        finally:
            self._since = None
            timer.cancel()

    @property
    def notice(self) -> Notice | None:
        """Return the notice about this wait, or None if it is over or short."""
        if self._since is None:
            return None
        seconds = asyncio.get_running_loop().time() - self._since
        return None if seconds < SHOWN_AFTER_S else Notice(subject=self._subject, seconds=seconds)

    def _log(self, experiment_id: str) -> None:
        if (notice := self.notice) is not None:
            logger.warning("experiment %s: %s", experiment_id, notice.sentence)
