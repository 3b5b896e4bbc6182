"""Members of gangs: stored with their job, and absent where an earlier version has stored the job."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from nnimgr.rules import facts as f
from nnimgr.rules.fold import apply
from nnimgr.store.jobs import JobRow
from nnimgr.store.reader import ExperimentReader
from nnimgr.store.writer import ExperimentWriter
from tests.rules.driver import T0, Life
from tests.rules.gang_life import GangLife


async def stored(directory: Path, life: Life) -> list[JobRow]:
    """Store the log of a life, fact by fact. Return the attempts of its first trial."""
    writer = ExperimentWriter(directory)
    state = await writer.open()
    for recorded in life.log:
        apply(state, recorded)
        await writer.append(state, [recorded], state.take_touched())
    await writer.close()
    with closing(ExperimentReader(directory)) as reader:
        assert reader.state() == life.state
        return reader.jobs(life.trial(0))


async def test_members_are_stored_with_their_places_and_their_ends(tmp_path: Path) -> None:
    life = GangLife(max_trial_number=1)
    life.member_starts(0, 1)
    life.member_ends(1, 7, message="ValueError: bad")
    life.member_is_lost(0, "the host was restarted")
    (row, *_) = await stored(tmp_path, life)
    leader, other = row.members
    assert (leader.keeper_id, leader.end_reason, leader.message) == ("ash", "lost", "the host was restarted")
    assert (other.keeper_id, other.started_at, other.ended_at) == ("elm", T0, T0)
    assert (other.end_reason, other.exit_code, other.message) == ("exited", 7, "ValueError: bad")


async def test_other_jobs_have_none(tmp_path: Path) -> None:
    life = Life(max_trial_number=1)
    life.end(0, reason=f.EndReason.EXITED)
    (row,) = await stored(tmp_path, life)
    assert row.members == ()
