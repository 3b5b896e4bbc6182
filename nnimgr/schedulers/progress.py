"""What PB2 observes of a trial between two comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Stretch of a trial that begins after ``since`` results with the loss ``loss``.

    ``gain``: how much the loss falls with each result; 0 if it is not known yet.
    """

    since: int
    loss: float
    parameters: Any
    gain: float = 0.0
