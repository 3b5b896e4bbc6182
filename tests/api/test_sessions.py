"""Sessions: codes work once; sessions end by time, by logout, or with their server."""

from __future__ import annotations

from nnimgr.api.sessions import Sessions


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def sign_in(sessions: Sessions) -> str:
    session = sessions.exchange(sessions.new_code())
    assert session is not None
    return session


def test_a_session_is_good_for_one_server_process_only() -> None:
    sessions = Sessions()
    session = sign_in(sessions)
    assert sessions.knows(session) and not Sessions().knows(session)


def test_a_logout_ends_the_session_and_no_other() -> None:
    sessions = Sessions()
    stays, goes = sign_in(sessions), sign_in(sessions)
    sessions.end(goes)
    sessions.end("unknown")
    assert sessions.knows(stays) and not sessions.knows(goes)


def test_sessions_end_after_twelve_hours() -> None:
    clock = Clock()
    sessions = Sessions(clock=clock)
    session = sign_in(sessions)
    clock.now += 12 * 3600 - 1
    assert sessions.knows(session)
    clock.now += 1
    assert not sessions.knows(session)


def test_codes_end_too() -> None:
    clock = Clock()
    sessions = Sessions(clock=clock)
    code = sessions.new_code()
    clock.now += 12 * 3600
    assert sessions.exchange(code) is None


def test_memory_is_bounded() -> None:
    sessions = Sessions()
    first_code = sessions.new_code()
    for _ in range(64):
        sessions.new_code()
    assert sessions.exchange(first_code) is None
    first = sign_in(sessions)
    for _ in range(256):
        sign_in(sessions)
    assert not sessions.knows(first)


def test_odd_values_are_only_unknown() -> None:
    sessions = Sessions()
    for odd in ("", "\ud800", "x" * 10_000):
        assert not sessions.knows(odd) and sessions.exchange(odd) is None
