"""Browser sessions: login codes that work once, and the cookie sessions they or the token are exchanged for.

A session survives a restart of the server, and a logout survives it too, so sessions are kept in a small file
of their own, as SHA-256 sums only. Another token (it was rotated) makes all of them void. Login codes live in
memory: whoever could read a code after a restart could as well ask for a new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

__all__ = ["SESSION_LIFE", "Sessions"]

SESSION_LIFE = timedelta(hours=12)
_CODE_LIFE = timedelta(hours=12)
_MOST_CODES = 64
_MOST_SESSIONS = 256


class Sessions:
    """Login codes and sessions of one server.

    ``path`` is where sessions are kept (0600; None: in memory only), ``token`` the token they stand for, and
    ``clock`` gives unix seconds.
    """

    def __init__(self, path: Path | None, *, token: str, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._seal = _digest(f"sessions of {token}")
        self._clock = clock
        self._codes: dict[str, float] = {}
        self._sessions = self._read()

    def new_code(self) -> str:
        """A code that ``exchange`` takes once, within twelve hours."""
        code = secrets.token_urlsafe(32)
        while len(self._codes) >= _MOST_CODES:
            del self._codes[next(iter(self._codes))]
        self._codes[_digest(code)] = self._clock() + _CODE_LIFE.total_seconds()
        return code

    def exchange(self, code: str) -> str | None:
        """The cookie value of a new session for an unused code; None if the code is not good (any more)."""
        expires_at = self._codes.pop(_digest(code), None)
        return None if expires_at is None or expires_at <= self._clock() else self.begin()

    def begin(self) -> str:
        """The cookie value of a new session, for whoever has shown that he may."""
        now = self._clock()
        session = secrets.token_urlsafe(32)
        self._sessions = {key: until for key, until in self._sessions.items() if until > now}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[_digest(session)] = now + SESSION_LIFE.total_seconds()
        self._write()
        return session

    def knows(self, session: str) -> bool:
        """Whether this cookie value belongs to a session that has not ended."""
        expires_at = self._sessions.get(_digest(session))
        return expires_at is not None and expires_at > self._clock()

    def end(self, session: str) -> None:
        """Log out. An unknown session is no error."""
        if self._sessions.pop(_digest(session), None) is not None:
            self._write()

    def _read(self) -> dict[str, float]:
        if self._path is None:
            return {}
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            if kept["seal"] != self._seal:
                return {}
            return {str(key): float(until) for key, until in kept["sessions"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _write(self) -> None:
        if self._path is None:
            return
        fresh = self._path.with_suffix(f".{os.getpid()}.new")
        text = json.dumps({"seal": self._seal, "sessions": self._sessions})
        # A full disk costs a login after the next restart and nothing else.
        with contextlib.suppress(OSError):
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            fresh.replace(self._path)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
