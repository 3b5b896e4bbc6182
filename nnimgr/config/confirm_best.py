"""Model of the field ``confirmBest``: how often the best trials are run again after the search."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from nnimgr.config.base import ConfigModel
from nnimgr.rules import terms

__all__ = ["ConfirmBestConfig"]

_MOST_TRIALS = 20
_MOST_RUNS = 30


class ConfirmBestConfig(ConfigModel):
    """The best trials are run again with other seeds when the search has ended."""

    top: Annotated[int, Field(ge=1, le=_MOST_TRIALS)] = 3
    runs: Annotated[int, Field(ge=2, le=_MOST_RUNS)] = 5

    def rule(self) -> terms.ConfirmBest:
        """Return the rule in the form that the core uses."""
        return terms.ConfirmBest(top=self.top, runs=self.runs)
