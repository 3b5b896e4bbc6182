"""Errors of questions about an experiment's trials."""

from __future__ import annotations

__all__ = ["AnalysisFailed", "BadQuestion"]


class AnalysisFailed(Exception):
    """Error: there is no answer although the question is valid. The message is one sentence for the user."""


class BadQuestion(Exception):
    """Error: the question is not valid.

    ``field``: the invalid field, by its name in the API. ``position``: place of the error in a text, from 0.
    """

    def __init__(self, field: str, message: str, *, position: int | None = None) -> None:
        message = message.encode("utf-8", "backslashreplace").decode()  # a trial can use any text as a name
        super().__init__(message)
        self.field, self.message, self.position = field, message, position
