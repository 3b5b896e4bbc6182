"""Tests of ``stopWhen``: a good result, a plateau, failures in a row, and the running time of all trials."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from nnimgr import codec
from nnimgr.core.managing.index_notes import nni_status
from nnimgr.rules import facts as f
from nnimgr.rules.activity import happening
from nnimgr.rules.indexes import rebuild
from nnimgr.rules.state import ExperimentState
from tests.rules.driver import Life, refold

E, S = f.ExperimentStatus, f.TrialStatus
STOP = f.RunningTrials.STOP
SECOND = timedelta(seconds=1)


def living(*, trial_concurrency: int = 1, **rules: Any) -> Life:
    return Life(trial_concurrency=trial_concurrency, stop_when=f.StopWhen(**rules))


def succeed(life: Life, sequence: int, value: float) -> None:
    if life.state.trials[life.trial(sequence)].status is not S.RUNNING:
        life.start(sequence)
    life.metric(sequence, 0, value, "FINAL")
    life.end(sequence)


def fail(life: Life, sequence: int) -> None:
    life.start(sequence)
    life.end(sequence, 1)


def change(life: Life, **rules: Any) -> None:
    limits = replace(life.state.limits, stop_when=f.StopWhen(**rules))
    life.take(f.ConfigChanged(changes={}, limits=limits))


def in_direction(life: Life, mode: str) -> None:
    life.take(
        f.ConfigChanged(
            changes={}, limits=life.state.limits, traits=f.TunerTraits(minimises=mode == "minimize")
        )
    )


@pytest.mark.parametrize(
    ("mode", "wanted", "poor", "good"),
    [("maximize", 0.9, 0.89, 0.9), ("minimize", 0.1, 0.2, 0.05)],
)
def test_a_good_result_ends_it(mode: str, wanted: float, poor: float, good: float) -> None:
    life = living(metric=wanted)
    in_direction(life, mode)
    succeed(life, 0, poor)
    assert life.state.status is E.RUNNING
    succeed(life, 1, good)
    assert life.state.status is E.DONE
    assert life.state.reason == f"stopWhen.metric: trial 1 has reached {good} (limit: {wanted})"
    assert refold(life.log) == life.state


def test_running_trials_finish_and_others_do_not_start() -> None:
    life = living(trial_concurrency=3, metric=0.9)
    life.start(1)
    life.wait_reason = "no GPU is free"
    succeed(life, 0, 0.95)
    assert (life.state.status, life.state.drain) == (E.DRAINING, f.DrainReason.RULE)
    assert nni_status(life.state.status, life.state.drain) == "NO_MORE_TRIAL"
    assert list(life.state.trials) == [life.trial(1), life.trial(2)]  # both have a place
    life.take(life.suggestion())  # the tuner had been asked for it before
    status, reason = life.ended()[life.trial(3)]
    assert status is S.SYS_CANCELED
    assert reason == f"a rule of stopWhen holds: {life.state.reason}; the trial had not started"
    ended = next(r.fact for r in life.log if isinstance(r.fact, f.TrialEnded) and r.fact.untried)
    assert ended.trial_id == life.trial(3)
    succeed(life, 1, 0.8)
    life.start(2)
    life.end(2)
    assert life.state.status is E.DONE and nni_status(E.DONE, None) == "DONE"


def test_a_trial_without_a_place_is_canceled() -> None:
    life = living(trial_concurrency=1, metric=0.9)
    life.start(0)
    life.wait_reason = "no GPU is free"
    change(life, metric=2.0)
    succeed(life, 0, 0.95)
    assert life.state.jobs[life.job(1)].waiting == "no GPU is free"
    change(life, metric=0.9)
    assert life.ended()[life.trial(1)][0] is S.SYS_CANCELED
    assert life.state.status is E.DONE


def test_running_trials_are_stopped_if_the_rules_say_so() -> None:
    life = living(trial_concurrency=3, metric=0.9, running_trials=STOP)
    life.start(1)
    life.start(2)
    life.take(f.StopRequested(trial_id=life.trial(2), kind=f.StopKind.PAUSE))
    life.end(2, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.state.trials[life.trial(2)].status is S.PAUSED
    succeed(life, 0, 0.95)
    assert life.state.status is E.DRAINING
    for sequence in (1, 3):
        assert life.state.jobs[life.job(sequence)].stop is not None
        life.end(sequence, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.state.status is E.DONE
    ended = life.ended()
    assert {ended[life.trial(sequence)][0] for sequence in (1, 2, 3)} == {S.EARLY_STOPPED}
    assert ended[life.trial(1)][1] == f"a rule of stopWhen holds: {life.state.reason}"


def test_a_lost_trial_is_not_started_again_if_running_trials_are_stopped() -> None:
    life = living(trial_concurrency=2, total_trial_time=10 * SECOND, running_trials=STOP)
    life.start(0)
    life.take(f.JobLost(job_id=life.job(0), reason="its machine was restarted"), after=10 * SECOND)
    assert life.ended()[life.trial(0)][0] is S.EARLY_STOPPED
    life.end(1, None, reason=f.EndReason.NEVER_STARTED)
    assert life.state.status is E.DONE


def test_a_plateau() -> None:
    life = living(plateau=f.Plateau(trials=3, improvement=0.1))
    values = [0.5, 0.55, 0.65, 0.66, 0.67]
    for sequence, value in enumerate(values):
        succeed(life, sequence, value)
        assert life.state.status is E.RUNNING
    succeed(life, 5, 0.6)
    assert life.state.status is E.DONE
    assert life.state.reason == ("the best result has not improved by 0.1 in 3 trials (best 0.67, trial 4)")
    assert [each.value for each in life.state.improvements] == [0.65, 0.66, 0.67]
    assert refold(life.log) == life.state


def test_steps_are_measured_within_the_last_trials_only() -> None:
    life = living(plateau=f.Plateau(trials=2, improvement=0.1))
    for sequence in range(10):  # 0.12 in two trials, although each step is smaller than 0.1
        succeed(life, sequence, 0.06 * sequence)
    assert life.state.status is E.RUNNING


def test_an_improvement_of_exactly_the_wanted_size_counts() -> None:
    life = living(plateau=f.Plateau(trials=1, improvement=0.1))
    succeed(life, 0, 0.2)
    succeed(life, 1, 0.3)  # 0.3 - 0.2 is a little less than 0.1 for a computer
    assert life.state.status is E.RUNNING


def test_a_plateau_without_a_least_improvement() -> None:
    life = living(plateau=f.Plateau(trials=2))
    succeed(life, 0, 1.0)
    fail(life, 1)  # says nothing about the results
    life.start(2)
    life.take(f.Verdict(trial_id=life.trial(2), attempt=1, position=0))
    life.end(2, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.ended()[life.trial(2)][0] is S.EARLY_STOPPED
    assert life.state.status is E.RUNNING
    succeed(life, 3, 1.0)
    assert life.state.reason == "the best result has not improved in 2 trials (best 1, trial 0)"


def test_trials_without_any_result_are_no_plateau() -> None:
    life = living(plateau=f.Plateau(trials=1))
    for sequence in range(3):
        life.end(sequence)
    assert life.state.status is E.RUNNING


def test_a_running_trial_may_end_a_plateau() -> None:
    life = living(trial_concurrency=2, plateau=f.Plateau(trials=2))
    life.start(1)
    for sequence in (0, 2, 3):
        succeed(life, sequence, 0.5)
    assert life.state.status is E.DRAINING
    succeed(life, 1, 0.6)
    assert life.state.status is E.RUNNING


def test_failures_in_a_row() -> None:
    life = living(failures=2)
    fail(life, 0)
    succeed(life, 1, 0.5)
    fail(life, 2)
    life.take(f.StopRequested(trial_id=life.trial(3)))
    life.end(3, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.state.status is E.RUNNING
    fail(life, 4)
    assert life.state.status is E.DONE
    assert life.state.reason == ("2 trials in a row have failed, the latest is trial 4: exited with code 1")
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert life.state.status is E.RUNNING  # the resume counts from zero


def test_one_of_each() -> None:
    life = living(failures=1)
    fail(life, 0)
    assert life.state.reason == "a trial has failed: trial 0: exited with code 1"
    change(life, plateau=f.Plateau(trials=1))
    succeed(life, 1, 0.5)
    succeed(life, 2, 0.5)
    assert life.state.reason == "the best result has not improved in 1 trial (best 0.5, trial 1)"


def test_the_time_of_all_attempts_is_added() -> None:
    life = living(trial_concurrency=2, total_trial_time=60 * SECOND)
    life.start(0)
    life.take(after=10 * SECOND)
    life.start(1)
    life.take(after=5 * SECOND)
    assert life.state.trial_time_for(life.now) == 20 * SECOND
    activity = happening(life.state, life.now, searching=True, outstanding=0, service_trouble=None)
    assert activity == "2 of 2 slots busy, 20 of 60 s of trial time used"
    life.take(f.JobLost(job_id=life.job(1), reason="its machine was restarted"))
    life.start(1, attempt=2)
    life.take(after=10 * SECOND)
    assert life.state.trial_time_for(life.now) == 40 * SECOND
    assert life.wake_at == life.now + 10 * SECOND  # two trials run
    life.take(after=10 * SECOND)
    assert life.state.status is E.DRAINING
    assert life.state.reason == "exceeded stopWhen.totalTrialTime (60 s)"
    assert life.wake_at is None
    life.end(0)
    life.end(1, attempt=2)
    assert life.state.status is E.DONE
    assert refold(life.log) == life.state


def test_a_snapshot_keeps_what_the_rules_need() -> None:
    life = living(plateau=f.Plateau(trials=3), total_trial_time=60 * SECOND)
    succeed(life, 0, 0.5)
    life.start(1)
    life.take(after=7 * SECOND)
    loaded = codec.decode(ExperimentState, codec.loads(codec.dumps(codec.encode(life.state))))
    rebuild(loaded)
    assert loaded == life.state
    assert loaded.trial_time_for(life.now) == 7 * SECOND
    assert loaded.improvements == life.state.improvements


@pytest.mark.parametrize(
    "after",
    [{}, {"plateau": f.Plateau(trials=5)}, {"plateau": f.Plateau(trials=2), "metric": 0.9}],
    ids=["removed", "raised", "unchanged"],
)
def test_a_changed_rule_lets_the_experiment_continue(after: dict[str, Any]) -> None:
    life = living(plateau=f.Plateau(trials=2))
    for sequence in range(3):
        succeed(life, sequence, 0.5)
    assert life.state.status is E.DONE and life.state.ended_at is not None
    change(life, **after)
    assert life.state.status is (E.DONE if after.get("metric") else E.RUNNING)


def test_a_lower_limit_looks_back_at_earlier_trials() -> None:
    life = living(plateau=f.Plateau(trials=9, improvement=0.1))
    for sequence, value in enumerate([0.1, 0.5, 0.51, 0.52]):
        succeed(life, sequence, value)
    change(life, plateau=f.Plateau(trials=2, improvement=0.1))
    assert life.state.reason == "the best result has not improved by 0.1 in 2 trials (best 0.52, trial 3)"


def test_a_rule_holds_also_after_the_last_trial_was_created() -> None:
    life = Life(
        trial_concurrency=2,
        max_trial_number=2,
        stop_when=f.StopWhen(metric=0.9, running_trials=STOP),
    )
    life.start(1)
    succeed(life, 0, 0.95)
    assert life.state.drain is f.DrainReason.RULE
    life.end(1, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.ended()[life.trial(1)][0] is S.EARLY_STOPPED


def test_interrupted_trials_do_not_run_again_while_a_rule_holds() -> None:
    life = living(trial_concurrency=2, metric=0.9)
    life.start(1)
    succeed(life, 0, 0.95)
    life.take(f.ExperimentStopRequested())
    life.end(1, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.state.status is E.STOPPED
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert life.state.status is E.DONE
    change(life)
    again = [r.fact.retry_of for r in life.log if isinstance(r.fact, f.Suggested) and r.fact.retry_of]
    assert again == [life.trial(1)]
