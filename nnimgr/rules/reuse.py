"""Ends trials with the result of an earlier trial that had the same parameters (``duplicates: reuse``)."""

from __future__ import annotations

from collections.abc import Iterator

from nnimgr.rules import facts as f
from nnimgr.rules.state import TrialState

__all__ = ["reuse_result"]


def reuse_result(trial: TrialState, reuse: f.Reuse) -> Iterator[f.Fact]:
    """Yield the facts that give a trial the result of an earlier trial, and that end the trial."""
    yield f.ResultReused(
        trial_id=trial.id,
        parameter_id=trial.parameter_id,
        source_id=reuse.trial_id,
        text=reuse.text,
        value=reuse.value,
    )
    yield f.TrialEnded(
        trial_id=trial.id,
        status=f.TrialStatus.SUCCEEDED,
        reason=f"was not run: it has the result of trial {reuse.trial_id}, whose parameters are the same",
    )
