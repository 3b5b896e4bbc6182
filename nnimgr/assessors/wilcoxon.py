"""Stopping by the Wilcoxon signed-rank test: a trial ends if it is worse than the best trial at each step."""

from __future__ import annotations

import math

from nnimgr.assessors.judging import JudgingAssessor, Seen, Why
from nnimgr.libraries import need

__all__ = ["WilcoxonAssessor"]

_MOST_STEPS = 1000  # number of latest steps that are compared, which limits the time to judge a report


class WilcoxonAssessor(JudgingAssessor):
    """Assessor that stops a trial whose reports are worse than those of the best succeeded trial at the same
    steps.

    Reports count as worse if the Wilcoxon test's p is less than ``p_threshold`` and their mean is worse. This
    assessor is for trials that report one result for each part of the work, such as a fold, and whose final
    result is the mean.

    Trials are judged after ``n_startup_steps`` reports, but not before the second. Raise ModuleNotFoundError
    if scipy is not installed.
    """

    def __init__(
        self, optimize_mode: str = "maximize", p_threshold: float = 0.1, n_startup_steps: int = 2
    ) -> None:
        super().__init__(optimize_mode)
        need("the assessor Wilcoxon", "scipy")
        self._threshold, self._startup = p_threshold, max(2, n_startup_steps)
        self._best: list[float | None] = []
        self._best_mean = math.inf
        self._best_id = ""

    def judge(self, trial_job_id: str, seen: Seen) -> Why | None:
        pairs = list(zip(seen.losses, self._best, strict=False))[-_MOST_STEPS:]
        differences = [mine - best for mine, best in pairs if mine is not None and best is not None]
        if len(differences) < self._startup or not any(differences) or _mean(seen.losses) <= self._best_mean:
            return None
        p = _p_value(differences)
        if p >= self._threshold:
            return None
        return Why(
            f"over {len(differences)} steps it is worse than {self._best_id}, the best trial (Wilcoxon test, "
            f"p = {p:.2g}, less than {self._threshold:g})",
            better=(self._best_id,),
        )

    def learn(self, trial_job_id: str, seen: Seen, success: bool) -> None:
        mean = _mean(seen.losses)
        if success and mean < self._best_mean:
            self._best, self._best_mean, self._best_id = seen.losses, mean, trial_job_id


def _p_value(differences: list[float]) -> float:
    """Return the p of the Wilcoxon test: how probable such large differences are if both trials are equally
    good.
    """
    import warnings

    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns about few or equal differences
        return float(stats.wilcoxon(differences, alternative="greater", zero_method="zsplit").pvalue)


def _mean(losses: list[float | None]) -> float:
    known = [loss for loss in losses if loss is not None]
    return math.fsum(known) / len(known) if known else math.inf
