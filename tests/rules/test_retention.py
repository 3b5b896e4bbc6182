"""Lives of trials whose best checkpoints stay."""

from __future__ import annotations

import pytest

from nnimgr.rules import facts as f
from tests.rules.driver import Life, refold
from tests.rules.saving import Saving


def steps(saving: Saving) -> list[int | None]:
    return [each.origin.step for each in saving.trial.checkpoints]


def save(saving: Saving, *values: float) -> list[f.Fact]:
    """Save a checkpoint after each of these results. Return all facts that follow."""
    facts: list[f.Fact] = []
    for value in values:
        saving.report(value)
        facts += saving.save(saving.number + 1)
    return facts


def pruned(facts: list[f.Fact]) -> list[tuple[int, tuple[int, ...]]]:
    return [(fact.up_to, fact.keep) for fact in facts if isinstance(fact, f.CheckpointsPruned)]


@pytest.mark.parametrize(("minimises", "kept"), [(False, [2, 5]), (True, [3, 5])])
def test_the_best_checkpoint_by_the_goal_stays_beside_the_newest(minimises: bool, kept: list[int]) -> None:
    saving = Saving(checkpoints_kept=1, checkpoints_best=1)
    saving.life.state.traits = f.TunerTraits(minimises=minimises)
    save(saving, 0.5, 0.9, 0.1, 0.7, 0.6)
    assert steps(saving) == kept


def test_a_better_checkpoint_replaces_the_best_one() -> None:
    saving = Saving(checkpoints_kept=1, checkpoints_best=1)
    assert pruned(save(saving, 0.5, 0.4, 0.4)) == [(2, (1,))]
    assert pruned(save(saving, 0.6)) == [(3, ())]
    assert steps(saving) == [4]
    assert refold(saving.life.log) == saving.life.state


def test_of_equal_results_the_newer_checkpoint_is_better() -> None:
    saving = Saving(checkpoints_kept=1, checkpoints_best=1)
    save(saving, 0.5, 0.5, 0.4, 0.4)
    assert steps(saving) == [2, 4]


def test_checkpoints_without_a_number_are_never_the_best() -> None:
    saving = Saving(checkpoints_kept=1, checkpoints_best=2)
    saving.save(1)
    save(saving, float("nan"), float("inf"), 0.1, 0.2, 0.3, 0.1)
    assert steps(saving) == [5, 6, 7]


def test_without_keep_best_only_the_newest_stay() -> None:
    saving = Saving(checkpoints_kept=1)
    save(saving, 0.9, 0.1)
    assert steps(saving) == [2]


def test_the_trial_continues_from_the_newest_and_not_from_the_best() -> None:
    saving = Saving(Life, checkpoints_kept=1, checkpoints_best=1)
    save(saving, 0.9, 0.1)
    (again,) = (fact for fact in saving.lose() if isinstance(fact, f.AttemptDue))
    assert again.origin is not None and again.origin.step == 2
    assert steps(saving) == [1, 2]


def test_the_checkpoint_that_the_last_attempt_continued_from_is_deleted_at_the_end() -> None:
    saving = Saving(checkpoints_kept=1, checkpoints_best=1)
    save(saving, 0.9, 0.1)
    first = saving.job_id
    saving.lose()
    saving.start()  # from checkpoint 2 of the first attempt
    save(saving, 0.2, 0.3)
    assert len(saving.trial.checkpoints) == 3
    ended = [fact for fact in saving.end() if isinstance(fact, (f.CheckpointsPruned, f.TrialEnded))]
    assert isinstance(ended[0], f.TrialEnded) and len(ended) == 2
    assert ended[1] == f.CheckpointsPruned(job_id=first, keeper_id="local", up_to=2, keep=(1,))
    assert refold(saving.life.log) == saving.life.state


def test_the_checkpoint_that_the_last_attempt_continued_from_stays_if_the_trial_has_no_newer_one() -> None:
    saving = Saving(checkpoints_kept=1, checkpoints_limit=100)
    save(saving, 0.9)
    job_id = saving.job_id
    saving.lose()
    saving.start()
    assert pruned(saving.end()) == []
    assert [number for number, _ in saving.life.state.left[job_id].sizes] == [1]


def test_an_ended_trial_holds_no_bytes_of_the_checkpoint_that_is_deleted_at_its_end() -> None:
    saving = Saving(checkpoints_kept=1, checkpoints_limit=100)
    save(saving, 0.9)
    first = saving.job_id
    saving.lose()
    saving.start()
    save(saving, 0.8)
    job_id = saving.job_id
    assert saving.life.state.held == 20
    assert pruned(saving.end()) == [(1, ())]
    assert saving.life.state.held == 10 and first not in saving.life.state.left
    assert list(saving.life.state.left) == [job_id]
