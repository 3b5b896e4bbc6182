"""Answers about the logs of an experiment. The logs of its trials are among the trials' files."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from nnimgr.api.models.base import Model


class LogEntry(Model):
    name: str
    about: str = Field(description="one sentence: who writes it")
    size: int | None = Field(description="bytes; null: it lies on another machine")
    modified_at: AwareDatetime | None
    follows: bool = Field(description="whether it can be followed")


class Logs(Model):
    """Those that there are."""

    logs: list[LogEntry]
