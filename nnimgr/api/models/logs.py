"""Answers about the logs of an experiment. Logs of a trial are among the trial's files instead."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from nnimgr.api.models.base import Model


class LogEntry(Model):
    name: str
    about: str = Field(description="one sentence: content of the log")
    size: int | None = Field(description="size in bytes; null: the log is on another machine")
    modified_at: AwareDatetime | None
    follows: bool = Field(description="true: the log can be followed")


class Logs(Model):
    """List of an experiment's logs. A log on this machine is listed only if its file exists."""

    logs: list[LogEntry]
