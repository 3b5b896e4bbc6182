"""Log of the server. Tokens are replaced before they are written."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from training_services.private import open_private

__all__ = ["LEVELS", "start_log"]

LEVELS = ("debug", "info", "warning", "error")

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MOST_BYTES = 10 << 20
_KEPT_FILES = 3


class _PrivateFileHandler(RotatingFileHandler):
    """Log handler whose files have mode 0600, also after a rotation."""

    def _open(self) -> Any:
        return open(
            self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=open_private
        )


class _RedactingFormatter(logging.Formatter):
    """Log formatter that replaces secrets by "***".

    Code must not log secrets in any case. This is a second protection. ``secrets`` may grow later.
    """

    def __init__(self, secrets: Collection[str]) -> None:
        super().__init__(_FORMAT)
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def start_log(level: str, *, file: Path | None, secrets: Collection[str]) -> None:
    """Start logging to ``file``, or to standard error if it is None. The file has mode 0600 and is rotated.

    Raise OSError if the file cannot be opened.
    """
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        handler = _PrivateFileHandler(
            file, maxBytes=_MOST_BYTES, backupCount=_KEPT_FILES, encoding="utf-8", errors="backslashreplace"
        )
    handler.setFormatter(_RedactingFormatter(secrets))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    for talkative in ("uvicorn", "asyncssh"):
        logging.getLogger(talkative).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(capture=True)
