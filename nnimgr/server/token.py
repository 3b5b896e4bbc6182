"""The server's token, which users may replace while the server runs."""

from __future__ import annotations

import logging
import os

from nnimgr.home import Home, HomeError

__all__ = ["ServerToken"]

logger = logging.getLogger(__name__)


class ServerToken:
    """Token in a home directory. ``seen``: all values that it has had, which the log must not show."""

    def __init__(self, home: Home) -> None:
        """Read the token, or write a new one. Raise HomeError if neither is possible."""
        self._home = home
        self._path = home.token_path  # looked at for each request
        self._last = home.token()
        self.seen = [self._last]
        self._stamp = self._look()

    def read(self) -> str:
        """Return the token that the file contains now. If somebody has deleted the file, write a new token.

        If the file cannot be read or written, log this once and return the last token.
        """
        stamp = self._look()
        if stamp is None or stamp != self._stamp:
            try:
                token = self._home.token()
                stamp = self._look()
            except HomeError as error:
                if stamp != self._stamp:
                    logger.error("the last token remains valid: %s", error)
            else:
                if token != self._last:
                    self._last = token
                    self.seen.append(token)
                    logger.info("the token was replaced")
            self._stamp = stamp
        return self._last

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
