"""Patterns for messages of the Python API, whose long lines are broken."""

from __future__ import annotations

__all__ = ["in_lines"]


def in_lines(pattern: str) -> str:
    """Return a pattern that also fits a sentence which is broken into lines."""
    return "(?s)" + pattern.replace(" ", r"\s+")
