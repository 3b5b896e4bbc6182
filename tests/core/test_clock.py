"""The clock of an experiment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from nnimgr.core.managing.clock import SteadyClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_it_follows_seconds_and_not_the_wall_clock() -> None:
    seconds = 100.0
    clock = SteadyClock(NOON, after=NOON - HOUR, seconds=lambda: seconds)
    assert clock() == NOON
    seconds = 160.0
    assert clock() == NOON + timedelta(minutes=1)


def test_it_goes_on_after_the_last_fact_where_the_wall_clock_was_set_back() -> None:
    clock = SteadyClock(NOON - HOUR, after=NOON, seconds=lambda: 7.0)
    assert clock() == NOON


def test_seconds_since_boot_do_not_stop() -> None:
    clock = SteadyClock(NOON, after=None)
    assert NOON <= clock() <= clock()
