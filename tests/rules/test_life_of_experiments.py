"""Whole lives of experiments, folded and planned as a runner does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from nnimgr.rules import facts as f
from nnimgr.rules.commands import AskTuner
from nnimgr.rules.plan import plan
from tests.rules.driver import Life

S = f.TrialStatus
E = f.ExperimentStatus
MINUTE = timedelta(minutes=1)


def test_slots_are_filled_and_the_budget_ends_it() -> None:
    life = Life(trial_concurrency=2, max_trial_number=3)
    assert life.state.status is E.RUNNING
    assert len(life.state.jobs) == 2
    life.start(0)
    life.metric(0, 0, 0.5)
    life.metric(0, 1, 0.9, "FINAL")
    facts = life.end(0)
    kinds = [type(fact).__name__ for fact in facts]
    # The end of one job and the placing of the next are one turn, hence one transaction.
    assert "TrialEnded" in kinds and "JobPlaced" in kinds
    assert life.state.status is E.DRAINING and life.state.drain is f.DrainReason.BUDGET
    assert life.state.best is not None and life.state.best.value == 0.9
    life.start(1)
    life.end(1)
    life.start(2)
    life.end(2)
    assert life.state.status is E.DONE
    assert not life.state.trials and not life.state.jobs
    assert life.state.reason == "3 of 3 trials"


def test_max_experiment_duration_lets_running_trials_end() -> None:
    life = Life(trial_concurrency=1, max_experiment_duration=MINUTE)
    life.start(0)
    life.take(after=MINUTE)
    assert life.state.status is E.DRAINING
    life.end(0)
    assert life.state.status is E.DONE
    assert life.state.active == MINUTE


def test_max_experiment_duration_ends_what_waits_for_a_machine() -> None:
    life = Life(trial_concurrency=2, max_experiment_duration=MINUTE)
    life.start(0)
    life.wait_reason = "waits for a GPU"
    life.end(1)
    assert life.state.jobs[life.job(2)].waiting == "waits for a GPU"
    life.take(after=MINUTE)
    why = "the experiment exceeded maxExperimentDuration; the trial had not started"
    assert life.ended()[life.trial(2)] == (S.SYS_CANCELED, why)
    assert life.state.status is E.DRAINING
    life.end(0)
    assert life.state.status is E.DONE


def test_the_reason_of_a_drain_follows_the_limit() -> None:
    life = Life(trial_concurrency=2, max_trial_number=2)
    assert (life.state.status, life.state.reason) == (E.DRAINING, "maxTrialNumber (2) is reached")
    limits = f.Limits(trial_concurrency=2, max_trial_number=1)
    facts = life.take(f.ConfigChanged(changes={"maxTrialNumber": 1}, limits=limits))
    assert (life.state.status, life.state.reason) == (E.DRAINING, "maxTrialNumber (1) is reached")
    assert sum(isinstance(fact, f.ExperimentMoved) for fact in facts) == 1
    assert not life.take(after=MINUTE)


def test_a_higher_limit_revives_a_done_experiment() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.end(0)
    assert life.state.status is E.DONE and life.state.ended_at is not None
    life.take(
        f.ConfigChanged(
            changes={"maxTrialNumber": 2}, limits=f.Limits(trial_concurrency=1, max_trial_number=2)
        )
    )
    assert life.state.status is E.DRAINING and life.state.ended_at is None
    life.end(1)
    assert life.state.status is E.DONE


def test_a_lower_concurrency_kills_nothing() -> None:
    life = Life(trial_concurrency=3)
    life.take(f.ConfigChanged(changes={"trialConcurrency": 1}, limits=f.Limits(trial_concurrency=1)))
    assert len(life.state.jobs) == 3
    life.end(0)
    life.end(1)
    assert len(life.state.jobs) == 1
    life.end(2)
    assert len(life.state.jobs) == 1


def test_an_exhausted_tuner_ends_in_done() -> None:
    life = Life(trial_concurrency=2, tuner=False)
    life.take(life.suggestion())
    life.take(f.TunerExhausted())
    assert (life.state.status, life.state.drain) == (E.DRAINING, f.DrainReason.TUNER)
    life.end(0)
    assert life.state.status is E.DRAINING  # it is asked again after each end of a trial
    life.take(f.TunerExhausted())
    assert life.state.status is E.DONE
    assert life.state.reason == "the tuner has no more parameter sets"


def test_a_tuner_may_have_more_parameter_sets_after_the_end_of_a_trial() -> None:
    life = Life(trial_concurrency=2, tuner=False)
    life.take(life.suggestion(), f.TunerExhausted())
    assert not any(isinstance(command, AskTuner) for command in plan(life.state, life.now).commands)
    life.end(0)
    assert AskTuner(count=2, urgent=True) in plan(life.state, life.now).commands
    life.take(life.suggestion())
    assert life.state.status is E.RUNNING
    life.end(1)
    life.take(f.TunerExhausted())
    assert life.state.status is E.DONE


def test_where_programs_ask_an_exhausted_tuner_ends_the_experiment_with_the_last_trial() -> None:
    life = Life(trial_concurrency=2, tuner=False)
    life.take(life.suggestion(), f.TunerExhausted())
    life.state.config["trainingService"] = {"platform": "ask"}
    life.end(0)
    assert life.state.status is E.DONE


def test_a_tuner_that_thinks_again_is_not_exhausted() -> None:
    life = Life(trial_concurrency=2, tuner=False)
    life.take(life.suggestion(), f.TunerExhausted())
    assert life.state.status is E.DRAINING
    life.take(life.suggestion())
    assert life.state.status is E.RUNNING
    assert len(life.state.jobs) == 2


def test_stop_cancels_and_resume_runs_the_cut_off_trials_again() -> None:
    life = Life(trial_concurrency=2, max_trial_number=3)
    life.start(0)
    life.take(f.ExperimentStopRequested())
    assert (life.state.status, life.state.drain) == (E.DRAINING, f.DrainReason.USER)
    life.end(0, None, reason=f.EndReason.STOPPED, signal=15)
    life.end(1, None, reason=f.EndReason.NEVER_STARTED)
    assert life.state.status is E.STOPPED
    assert {status for status, _ in life.ended().values()} == {S.SYS_CANCELED}
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    again = [r.fact for r in life.log if isinstance(r.fact, f.Suggested) and r.fact.retry_of]
    assert [(fact.retry_of, fact.parameter_id) for fact in again] == [(life.trial(0), 0), (life.trial(1), 1)]
    for sequence in (2, 3, 4):
        life.end(sequence)
    assert life.state.status is E.DONE
    assert life.state.counts == {S.SYS_CANCELED: 2, S.SUCCEEDED: 3}


def test_a_stop_and_the_end_of_a_trial_in_one_turn() -> None:
    life = Life(trial_concurrency=2)
    life.start(0)
    ended = f.JobEnded(
        job_id=life.job(0),
        reason=f.EndReason.EXITED,
        exit_code=0,
        signal=None,
        metrics=0,
        acked_cmd=life.cmd_seq,
        ended_at=life.now,
    )
    life.take(f.ExperimentStopRequested(), ended)
    life.end(1, None, reason=f.EndReason.NEVER_STARTED)
    assert [status for status, _ in life.ended().values()] == [S.SUCCEEDED, S.SYS_CANCELED]
    assert life.state.status is E.STOPPED


def test_detach_without_a_trial_that_runs_is_a_stop() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.end(0)
    life.take(f.ExperimentStopRequested(detach=True))
    assert life.state.status is E.STOPPED
    assert life.state.reason == "it was stopped after it was DONE: 1 of 1 trials"


def test_detach_leaves_the_trials_running() -> None:
    life = Life(trial_concurrency=1)
    life.start(0)
    facts = life.take(f.ExperimentStopRequested(detach=True))
    assert not any(isinstance(fact, f.StopOrdered) for fact in facts)
    # The other trials, which are queued, do not run.
    assert (life.state.status, life.state.reason) == (E.STOPPED, "1 trial was left running without a server")
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert life.state.status is E.RUNNING
    life.end(0)
    assert life.ended()[life.trial(0)][0] is S.SUCCEEDED


def test_a_hopeless_algorithm_is_an_error_and_resume_tries_again() -> None:
    life = Life(tuner=False)
    life.take(f.AlgorithmFailed(role=f.Role.TUNER, call="__init__", sentence="boom", hopeless=True))
    assert (life.state.status, life.state.reason) == (E.ERROR, "boom")
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert life.state.status is E.RUNNING


def test_more_than_three_crashes_in_a_row_are_an_error() -> None:
    life = Life(trial_concurrency=2, tuner=False)
    crash = f.AlgorithmFailed(role=f.Role.TUNER, call="process", sentence="died", fatal=True)
    for _ in range(3):
        life.take(crash)
    assert life.state.status is E.RUNNING
    for _ in range(3):  # nobody had asked it for anything
        life.take(replace(crash, idle=True))
    assert life.state.status is E.RUNNING
    life.take(life.suggestion(), f.AlgorithmRecovered(role=f.Role.TUNER))
    assert life.take(f.AlgorithmRecovered(role=f.Role.TUNER)) == []
    for _ in range(3):
        life.take(crash)
    assert life.state.status is E.RUNNING
    life.take(crash)
    assert life.state.status is E.ERROR
    life.start(0)
    life.end(0)
    assert life.ended()[life.trial(0)][0] is S.SUCCEEDED


def test_a_trial_added_when_the_tuner_has_no_more_is_run() -> None:
    life = Life(tuner=False)
    life.take(f.TunerExhausted())
    assert life.state.status is E.DONE
    added = f.Suggested(
        trial_id=life.trial(0),
        sequence=0,
        source=f.SuggestionSource.CUSTOMIZED,
        parameter_id=None,
        parameters="{}",
    )
    assert f.JobPlaced in map(type, life.take(added))
    assert life.state.status is E.DRAINING
    life.start(0)
    life.end(0)
    life.take(f.TunerExhausted())
    assert life.state.status is E.DONE
