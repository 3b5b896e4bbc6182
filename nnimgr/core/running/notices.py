"""Notices: conditions that hold at present and are shown, but not stored."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Notice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A condition that holds at present and is not stored.

    ``seconds``: how long it has held, if this is known. ``detail``: a stack trace, if there is one.
    """

    subject: str
    seconds: float | None = None
    detail: str = ""

    @property
    def sentence(self) -> str:
        return self.subject if self.seconds is None else f"{self.subject} for {self.seconds:.0f} s"
