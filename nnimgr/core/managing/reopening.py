"""Builds the first facts that a runner records when the runner opens an existing experiment."""

from __future__ import annotations

from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from nnimgr.store.high_water import HighWater

__all__ = ["opening_facts"]

_RESTORED = "the database was replaced by an older one"


def opening_facts(
    state: ExperimentState, *, m_epoch: int, missing: HighWater | None, resumed: bool = False
) -> list[f.Fact]:
    """Return the facts that record the opening of an experiment.

    ``missing``: the last known progress of the experiment if its database was replaced by an older database,
    else None. In this case, new trials do not get ids that lost trials may have had. Trials that have no
    machine in the older database are restarted with new ids, because they may already have run.
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
        if not trial.is_to_end
        and trial.status is not f.TrialStatus.PAUSED
        and trial.closed_job is None
        and not _is_placed(state, trial.job_id)
    ]
    return [opened, *unplaced]


def _is_placed(state: ExperimentState, job_id: str | None) -> bool:
    return job_id is not None and state.jobs[job_id].placed is not None
