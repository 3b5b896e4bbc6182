"""The indexes of the state follow from its trials and jobs by one table of predicates."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

from nnimgr import codec
from nnimgr.rules import facts as f
from nnimgr.rules.fold import apply
from nnimgr.rules.indexes import INDEXES, rebuild
from nnimgr.rules.plan import plan
from nnimgr.rules.state import ExperimentState
from tests.rules.driver import PLACE, Life


def copy_of(state: ExperimentState) -> ExperimentState:
    """Return the state as it is after a snapshot was written and read."""
    copy = codec.decode(ExperimentState, codec.loads(codec.dumps(codec.encode(state))))
    rebuild(copy)
    return copy


def test_the_table_has_every_index() -> None:
    derived = {each.name for each in dataclasses.fields(ExperimentState) if not each.compare}
    assert derived == {*INDEXES, "closing_jobs", "touched"}


def test_a_snapshot_has_the_indexes_of_the_life() -> None:
    life = Life(trial_concurrency=4)
    for sequence in range(3):
        life.start(sequence)
    life.take(f.StopRequested(trial_id=life.trial(0)))
    life.take(f.JobLost(job_id=life.job(1), reason="gone"))
    life.take(f.StopRequested(trial_id=life.trial(2), kind=f.StopKind.PAUSE))
    life.end(2, None, reason=f.EndReason.STOPPED, acked=0)
    copy = copy_of(life.state)
    for name in INDEXES:
        assert list(getattr(copy, name)) == list(getattr(life.state, name)), name
    assert list(copy.closing_jobs) == list(life.state.closing_jobs) and copy.closing_jobs
    assert copy.open_jobs == life.state.open_jobs == 4


def test_slots_and_jobs_of_a_machine() -> None:
    life = Life(trial_concurrency=3, max_trial_number=2, slot_held_for=timedelta(0))
    assert (life.state.open_jobs, life.state.free_slots) == (2, 1)
    assert [job.id for job in life.state.open_jobs_at(PLACE.keeper_id)] == [life.job(0), life.job(1)]
    assert not list(life.state.open_jobs_at("other"))
    life.start(0)
    life.end(0)
    assert [job.id for job in life.state.open_jobs_at(PLACE.keeper_id)] == [life.job(1)]
    life.take(f.KeeperSilent(keeper_id="local", reason="no word"))
    assert (life.state.open_jobs, list(life.state.lent), life.state.free_slots) == (1, [life.trial(1)], 3)


def test_a_trial_of_an_older_search_space_is_known_after_a_snapshot() -> None:
    """A snapshot keeps the mark ``superseded``, because a restarted server may have to cancel the trial."""
    life = Life(tuner=False, trial_concurrency=1)
    life.take(life.suggestion(), life.suggestion(1))
    changed = f.ConfigChanged(changes={}, limits=life.state.limits, search_space={"y": {}})
    apply(life.state, f.Recorded(life.state.number + 1, life.now, changed))
    copy = copy_of(life.state)
    assert list(copy.superseded) == [life.trial(1)]
    reason = "the search space or its constraints were changed"
    assert plan(copy, life.now).facts == (
        f.TargetMoved(trial_id=life.trial(1), kind=f.StopKind.SYSTEM, reason=reason),
    )
