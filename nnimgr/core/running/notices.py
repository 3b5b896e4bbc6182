"""Notices: present conditions that users see and that are not stored."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Notice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Present condition that users see and that is not stored.

    ``seconds``: duration of the condition; None if unknown. ``detail``: a stack trace, or "".
    """

    subject: str
    seconds: float | None = None
    detail: str = ""

    @property
    def sentence(self) -> str:
        return self.subject if self.seconds is None else f"{self.subject} for {self.seconds:.0f} s"
