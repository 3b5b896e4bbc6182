"""Answers of the feed of an experiment."""

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
    """Something that has happened, in one sentence."""

    number: int = Field(description="of the fact: a cursor")
    at: AwareDatetime
    severity: Severity
    sentence: str
    trial_id: str | None
    sequence: int | None = Field(description="the number of that trial")


class Feed(Model):
    """Newest first."""

    entries: list[FeedEntry]
    next_before: int | None = Field(description="what to send as `before` for older ones; null: none are")
    next_after: int = Field(description="what to send as `after` for newer ones, at once or later")
