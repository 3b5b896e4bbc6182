"""What can go wrong with a question about an experiment's trials."""

from __future__ import annotations

__all__ = ["AnalysisFailed", "BadQuestion"]


class AnalysisFailed(Exception):
    """There is no answer, for no fault of whoever asked; the message is one sentence for the user."""


class BadQuestion(Exception):
    """The question cannot be answered as it was put.

    ``field``: what of it is wrong, by its name in the API. ``position``: where in a text, from 0.
    """

    def __init__(self, field: str, message: str, *, position: int | None = None) -> None:
        message = message.encode("utf-8", "backslashreplace").decode()  # a trial can name anything
        super().__init__(message)
        self.field, self.message, self.position = field, message, position
