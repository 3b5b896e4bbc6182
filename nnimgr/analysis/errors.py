"""Errors of questions to the analysis process about an experiment's trials."""

from __future__ import annotations

__all__ = ["AnalysisFailed", "BadQuestion"]


class AnalysisFailed(Exception):
    """Error: the analysis process has no answer to a valid question. The message is one sentence for the
    user.
    """


class BadQuestion(Exception):
    """Error: a question to the analysis process is not valid.

    ``field``: name of the invalid field in the API. ``position``: index of the wrong character, if the field
    is a text with a syntax, such as a filter.
    """

    def __init__(self, field: str, message: str, *, position: int | None = None) -> None:
        message = message.encode("utf-8", "backslashreplace").decode()  # a trial can use any text as a name
        super().__init__(message)
        self.field, self.message, self.position = field, message, position
