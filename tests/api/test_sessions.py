"""Sessions: codes work once, sessions end, and both survive or do not survive a restart as they should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


def test_sessions_survive_a_restart_and_so_do_logouts(tmp_path: Path) -> None:
    path = tmp_path / "sessions.json"
    sessions = Sessions(path, token="t")
    stays, goes = sign_in(sessions), sign_in(sessions)
    sessions.end(goes)
    sessions.end("unknown")
    again = Sessions(path, token="t")
    assert again.knows(stays) and not again.knows(goes)


def test_another_token_ends_all_sessions(tmp_path: Path) -> None:
    path = tmp_path / "sessions.json"
    session = sign_in(Sessions(path, token="t"))
    assert not Sessions(path, token="rotated").knows(session)


def test_nothing_secret_lies_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "sessions.json"
    sessions = Sessions(path, token="the-token")
    session = sign_in(sessions)
    text = path.read_text()
    assert session not in text and "the-token" not in text
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_sessions_end_after_twelve_hours() -> None:
    clock = Clock()
    sessions = Sessions(None, token="t", clock=clock)
    session = sign_in(sessions)
    clock.now += 12 * 3600 - 1
    assert sessions.knows(session)
    clock.now += 1
    assert not sessions.knows(session)


def test_codes_end_too() -> None:
    clock = Clock()
    sessions = Sessions(None, token="t", clock=clock)
    code = sessions.new_code()
    clock.now += 12 * 3600
    assert sessions.exchange(code) is None


def test_memory_is_bounded() -> None:
    sessions = Sessions(None, token="t")
    first_code = sessions.new_code()
    for _ in range(64):
        sessions.new_code()
    assert sessions.exchange(first_code) is None
    first = sign_in(sessions)
    for _ in range(256):
        sign_in(sessions)
    assert not sessions.knows(first)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", '{"seal": 1}', json.dumps({"seal": "x", "sessions": 3}), "\ufeff{"]
)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sessions.json"
    path.write_text(text)
    assert Sessions(path, token="t").knows("x") is False


def test_odd_values_are_only_unknown() -> None:
    sessions = Sessions(None, token="t")
    for odd in ("", "\ud800", "x" * 10_000):
        assert not sessions.knows(odd) and sessions.exchange(odd) is None
