"""Base of the built-in schedulers that compare trials: it converts results to losses."""

from __future__ import annotations

import math

from nnimgr.algorithm import OptimizeMode
from nnimgr.scheduler import Scheduler, Trial

__all__ = ["NAMED", "RankingScheduler", "of_trials"]

NAMED = 3  # most better trials that a decision lists


class RankingScheduler(Scheduler):
    """Base of the schedulers that compare trials. A loss is a result whose lower values are better."""

    def __init__(self, optimize_mode: str) -> None:
        self._sign = -1.0 if OptimizeMode(optimize_mode) is OptimizeMode.Maximize else 1.0

    def loss_at(self, trial: Trial, reports: int) -> float:
        """Return the loss of the trial's result number ``reports``, counted from 1.

        A result without a finite number has the loss infinity, so that it is the worst.
        """
        number = trial.numbers[reports - 1]
        return math.inf if number is None else self._sign * number

    def shown(self, loss: float) -> str:
        """Convert a loss back to the reported number, as short text."""
        return f"{self._sign * loss:.4g}" if math.isfinite(loss) else "no number"


def of_trials(best: int) -> str:
    """Return who continues, as part of a sentence: "the best trial continues" or "the best 3 continue"."""
    return "the best trial continues" if best == 1 else f"the best {best} continue"
