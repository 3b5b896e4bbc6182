"""How fast an experiment creates trials, and when its limits will end it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nnimgr.api.pace import Forecast, forecast, trials_per_s

START = datetime(2026, 1, 1, tzinfo=UTC)


def created(*seconds: float) -> list[datetime]:
    """Return the instants of these creations, newest first."""
    return [START + timedelta(seconds=each) for each in reversed(seconds)]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_the_first_filling_of_the_slots_is_no_pace() -> None:
    latest = created(0, 0, 0, 0, 10, 20, 30)
    assert trials_per_s(latest, created=7, ended=3, slots=4, now=at(30)) == pytest.approx(0.1)
    assert trials_per_s(latest[1:], created=6, ended=2, slots=4, now=at(20)) is None


def test_a_long_wait_lowers_the_pace() -> None:
    latest = created(0, 10, 20, 30)
    assert trials_per_s(latest, created=50, ended=48, slots=2, now=at(35)) == pytest.approx(0.1)
    assert trials_per_s(latest, created=50, ended=48, slots=2, now=at(400)) == pytest.approx(0.01)


def test_trials_of_one_instant_have_no_pace() -> None:
    assert trials_per_s(created(0, 0, 0, 0), created=50, ended=48, slots=2, now=at(0)) is None


def test_the_nearest_limit_ends_the_experiment() -> None:
    by_number = Forecast(timedelta(seconds=200), "maxTrialNumber")
    assert forecast(0.1, unfinished=20, time_left=None) == by_number
    assert forecast(0.1, unfinished=20, time_left=timedelta(seconds=300)) == by_number
    by_time = Forecast(timedelta(seconds=100), "maxExperimentDuration")
    assert forecast(0.1, unfinished=20, time_left=timedelta(seconds=100)) == by_time
    assert forecast(None, unfinished=20, time_left=timedelta(seconds=100)) == by_time
    assert forecast(None, unfinished=20, time_left=None) is None
    assert forecast(0.1, unfinished=None, time_left=None) is None
    assert forecast(0.1, unfinished=None, time_left=timedelta(seconds=-3)) == Forecast(
        timedelta(), "maxExperimentDuration"
    )
