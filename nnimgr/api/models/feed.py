"""Answers of the feed of an experiment, which describes its events in sentences."""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime, Field

from nnimgr.api.models.base import Model


class Severity(StrEnum):
    INFO = "info"
    GOOD = "good"
    WARNING = "warning"
    ERROR = "error"


class FeedEntry(Model):
    """Event of an experiment, described by a sentence."""

    number: int = Field(description="number of the fact, which can be used as `before` or `after`")
    at: AwareDatetime
    severity: Severity
    sentence: str
    trial_id: str | None
    sequence: int | None = Field(description="number of the trial")


class Feed(Model):
    """Page of an experiment's feed, newest entry first."""

    entries: list[FeedEntry]
    next_before: int | None = Field(
        description="value of `before` for the next older page; null: no older entries"
    )
    next_after: int = Field(description="value of `after` for newer entries, now or later")
