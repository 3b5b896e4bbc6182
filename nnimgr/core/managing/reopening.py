"""Builds the first facts that a runner records when it takes an existing experiment."""

from __future__ import annotations

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from nnimgr.store.high_water import HighWater

__all__ = ["opening_facts"]

_RESTORED = "the database was replaced by an older one"


def opening_facts(
    state: ExperimentState, *, m_epoch: int, missing: HighWater | None, resumed: bool = False
) -> list[f.Fact]:
    """Return the facts that open the experiment.

    ``missing``: how far the experiment had come before its database was replaced by an older one. Then no
    trial id is given a second time. Trials without a place in the older database run again under new ids,
    because they may have run under their own ids already.
    """
    if missing is None:
        return [f.ExperimentOpened(m_epoch=m_epoch, resumed=resumed)]
    opened = f.ExperimentOpened(
        m_epoch=m_epoch,
        resumed=resumed,
        missing=max(0, missing.number - state.number),
        next_sequence=missing.next_sequence,
    )
    unplaced = [
        f.TargetMoved(trial_id=trial.id, kind=f.StopKind.CUT, reason=_RESTORED)
        for trial in state.trials.values()
        if trial.target in (None, f.StopKind.PAUSE)
        and trial.closed_job is None
        and not _is_placed(state, trial.job_id)
    ]
    return [opened, *unplaced]


def _is_placed(state: ExperimentState, job_id: str | None) -> bool:
    return job_id is not None and state.jobs[job_id].placed is not None
