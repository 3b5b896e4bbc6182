"""Members of gangs as the REST API shows them."""

from __future__ import annotations

from pathlib import Path

from nnimgr.api.convert import job_of
from nnimgr.api.trial_paths import TrialPaths
from nnimgr.store.jobs import JobRow
from nnimgr.store.members import MemberRow
from tests.rules.driver import T0


def test_the_members_of_a_lost_attempt_are_lost(tmp_path: Path) -> None:
    ended = MemberRow(keeper_id="ash", gpus=[], started_at=T0, ended_at=T0, end_reason="exited", exit_code=0)
    open_ = MemberRow(keeper_id="elm", gpus=[], started_at=T0)
    row = JobRow(
        job_id="exp-aaaaa-1", trial_id="aaaaa", attempt=1, keeper_id="ash", gpus=None, placed_at=T0,
        started_at=T0, pid=None, ended_at=T0, end_reason=None, exit_code=None, signal=None, frames=0,
        message="the experiment was copied", members=(ended, open_),
    )  # fmt: skip
    leader, other = job_of(
        row, TrialPaths(experiment_id="exp", directory=tmp_path, platform="remote")
    ).members
    assert (leader.state, leader.end_reason) == ("ended", "exited")
    assert (other.state, other.end_reason, other.ended_at) == ("ended", "lost", T0)
