"""Browser sessions: login codes that work once, and session cookies, given in exchange for a code or the
token.

The server process keeps codes and sessions in its memory, as SHA-256 hashes. They end with the process. A
browser sends its cookie to any process that listens at the address. After the server's end, another account
of the machine may listen there. The cookie is then worthless, because no server knows its session any more.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from datetime import timedelta

__all__ = ["SESSION_LIFE", "Sessions"]

SESSION_LIFE = timedelta(hours=12)
_CODE_LIFE = timedelta(hours=12)
_MOST_CODES = 64
_MOST_SESSIONS = 256


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)  # a clock that continues while the machine is suspended


class Sessions:
    """Login codes and sessions of one server process. ``clock`` returns seconds and never goes back."""

    def __init__(self, *, clock: Callable[[], float] = _now) -> None:
        self._clock = clock
        self._codes: dict[str, float] = {}
        self._sessions: dict[str, float] = {}

    def new_code(self) -> str:
        """Return a new code that ``exchange`` accepts once, within twelve hours."""
        code = secrets.token_urlsafe(32)
        while len(self._codes) >= _MOST_CODES:
            del self._codes[next(iter(self._codes))]
        self._codes[_digest(code)] = self._clock() + _CODE_LIFE.total_seconds()
        return code

    def exchange(self, code: str) -> str | None:
        """Begin a session for an unused login code, and return its cookie value. Return None if the code is
        not valid.
        """
        expires_at = self._codes.pop(_digest(code), None)
        return None if expires_at is None or expires_at <= self._clock() else self.begin()

    def begin(self) -> str:
        """Begin a session, and return its cookie value. The caller must have checked the credential."""
        now = self._clock()
        session = secrets.token_urlsafe(32)
        self._sessions = {key: until for key, until in self._sessions.items() if until > now}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[_digest(session)] = now + SESSION_LIFE.total_seconds()
        return session

    def knows(self, session: str) -> bool:
        """Return True if this cookie value belongs to a session that has not ended."""
        expires_at = self._sessions.get(_digest(session))
        return expires_at is not None and expires_at > self._clock()

    def end(self, session: str) -> None:
        """End the session with this cookie value. Do nothing if there is no such session."""
        self._sessions.pop(_digest(session), None)

    def end_all(self) -> None:
        """End all sessions, and make all codes invalid."""
        self._sessions.clear()
        self._codes.clear()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
