"""Whole lives of trials, folded and planned as a runner does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from nnimgr import codec
from nnimgr.rules import facts as f
from nnimgr.rules.fold import apply
from nnimgr.rules.indexes import rebuild
from nnimgr.rules.state import ExperimentState, trial_id_of
from nnimgr.rules.transitions import InvalidTransition
from nnimgr.rules.trial_ends import RETRY_DELAY
from tests.rules.driver import PLACE, Life, refold

S = f.TrialStatus
E = f.ExperimentStatus
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("code", "signal", "status", "reason"),
    [
        (0, None, S.SUCCEEDED, "no result: the trial never called nni.report_final_result()"),
        (3, None, S.FAILED, "exited with code 3"),
        (
            *(127, None, S.FAILED),
            "command not found: true (exit code 127)",
        ),
        (None, 9, S.FAILED, "was killed by signal 9 (SIGKILL)"),
        (None, 40, S.FAILED, "was killed by signal 40 (a real-time signal)"),
    ],
)
def test_an_exit_decides_the_status(code: int | None, signal: int | None, status: S, reason: str) -> None:
    life = Life()
    life.start(0)
    life.end(0, code, signal=signal)
    assert life.ended()[life.trial(0)] == (status, reason)


def test_a_result_behind_damaged_metrics_is_not_said_to_be_never_reported() -> None:
    life = Life()
    life.start(0)
    message = "the metrics file holds no frame header at byte 105; nothing from there on is read"
    life.end(0, 0, message=message)
    assert life.ended()[life.trial(0)] == (S.SUCCEEDED, f"no result: {message}")


def test_a_user_stops_a_running_trial() -> None:
    life = Life()
    life.start(0)
    facts = life.take(f.StopRequested(trial_id=life.trial(0)))
    assert any(isinstance(fact, f.StopOrdered) for fact in facts)
    assert life.state.trials[life.trial(0)].reason == "is being stopped: a user stopped it"
    life.end(0, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.ended()[life.trial(0)] == (S.USER_CANCELED, "a user stopped it")


def test_an_exit_that_comes_before_the_stop_wins() -> None:
    life = Life()
    life.start(0)
    life.take(f.StopRequested(trial_id=life.trial(0)))
    life.end(0, 0)
    assert life.ended()[life.trial(0)][0] is S.SUCCEEDED


def test_a_stop_of_a_placed_trial_that_never_started() -> None:
    life = Life()
    life.take(f.StopRequested(trial_id=life.trial(0)))
    life.end(0, None, reason=f.EndReason.NEVER_STARTED)
    assert life.ended()[life.trial(0)][0] is S.USER_CANCELED


def test_a_stop_of_a_trial_that_waits_for_a_place_needs_no_keeper() -> None:
    life = Life(trial_concurrency=1, max_trial_number=5)
    life.start(0)
    life.wait_reason = "no GPU is free"
    life.end(0)
    assert life.state.trials[life.trial(1)].reason == "no GPU is free"
    life.take(f.StopRequested(trial_id=life.trial(1)))
    assert life.ended()[life.trial(1)][0] is S.USER_CANCELED
    assert life.trial(2) in life.state.trials


def test_a_job_leaves_the_state_when_its_last_command_is_acknowledged() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.take(f.StopRequested(trial_id=life.trial(0)))
    life.end(0, 0, acked=1)
    assert life.ended()[life.trial(0)][0] is S.SUCCEEDED
    assert life.state.status is E.DRAINING and life.job(0) in life.state.jobs
    life.take(f.KeeperAcknowledged(keeper_id="local", acked_cmd=2))
    assert life.state.status is E.DONE and not life.state.jobs


def test_a_verdict_stops_early_and_a_late_one_is_turned_away() -> None:
    life = Life()
    life.start(0)
    life.metric(0, 0, 0.1)
    life.take(f.Verdict(trial_id=life.trial(0), attempt=1, position=0))
    assert life.take(f.Verdict(trial_id=life.trial(0), attempt=1, position=0)) == []
    life.end(0, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.ended()[life.trial(0)] == (
        S.EARLY_STOPPED,
        "the assessor judged the trial bad at report 1",
    )
    assert life.take(f.Verdict(trial_id=life.trial(0), attempt=1, position=1)) == []


def test_what_the_assessor_says_of_why_is_the_end_s_reason() -> None:
    life = Life()
    life.start(0)
    life.metric(0, 0, 0.1)
    reason = "0.1 at step 1 is not among the best"
    life.take(f.Verdict(trial_id=life.trial(0), attempt=1, position=0, reason=reason, rung=1, better=("b",)))
    life.end(0, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.ended()[life.trial(0)][1] == f"the assessor judged the trial bad at report 1: {reason}"


def test_results_that_come_more_than_once_are_noted() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    job = life.job(0)
    for position, sequence in enumerate((0, 1, 2)):
        life.take(f.MetricReported(job, position, "PERIODICAL", sequence, "0", 0.5, "0.5"))
    trial = life.state.trials[life.trial(0)]
    assert trial.note is None
    life.take(f.MetricReported(job, 3, "PERIODICAL", 1, "0", 0.5, "0.5"))
    assert trial.note == (
        "intermediate result number 2 came more than once: several programs or processes of this trial "
        "report results"
    )


def test_a_second_final_result_is_noted() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.metric(0, 0, 0.5, kind="FINAL")
    trial = life.state.trials[life.trial(0)]
    assert trial.note is None
    life.metric(0, 1, 0.9, kind="FINAL")
    assert (trial.final_value, trial.note) == (
        0.5,
        "the trial reported another final result, 0.9, which is not used: the first one, 0.5, counts",
    )


def test_a_second_final_result_is_noted_once_and_beside_other_notes() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.take(f.MetricReported(life.job(0), 0, "PERIODICAL", 0, "0", None, "NaN"))
    for position, value in enumerate((0.5, 0.9, 0.8), 1):
        life.metric(0, position, value, kind="FINAL")
    noted = life.state.trials[life.trial(0)].note or ""
    assert noted.startswith("intermediate result number 1 is NaN, ")
    assert noted.endswith(
        "; the trial reported another final result, 0.9, which is not used: the first one, 0.5, counts"
    )


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('"good"', 'is "good", which is not a finite number'),
        ("NaN", "is NaN, which is not a finite number"),
        ('{"default": "x"}', 'is {"default": "x"}, whose "default" is not a finite number'),
        ('{"layer": "x"}', 'is {"layer": "x"}, which has no number'),
        ('{"loss": 0.1}', None),  # charts show the numbers under other names
    ],
)
def test_an_intermediate_result_without_a_number_is_noted(text: str, note: str | None) -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.take(f.MetricReported(life.job(0), 0, "PERIODICAL", 0, "0", None, text))
    noted = life.state.trials[life.trial(0)].note
    assert noted == (
        None
        if note is None
        else f"intermediate result number 1 {note}: charts and built-in algorithms cannot use it; "
        "pass a number to nni.report_intermediate_result()"
    )


def test_a_lost_attempt_is_tried_again_under_a_new_id() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.metric(0, 0, 0.5)
    facts = life.take(f.JobLost(job_id=life.job(0), reason="the host was rebooted"))
    assert next(fact for fact in facts if isinstance(fact, f.AttemptDue)).attempt == 2
    assert life.job(0, 2) in life.state.jobs
    trial = life.state.trials[life.trial(0)]
    assert (trial.status, trial.attempt, trial.intermediates) == (S.WAITING, 2, 0)
    # Late packets of the first attempt are no news.
    assert life.take(f.MetricReported(life.job(0), 1, "PERIODICAL", 1, "0", 0.6, "0.6")) == []
    life.start(0, 2)
    life.end(0, attempt=2)
    assert life.ended()[life.trial(0)][0] is S.SUCCEEDED


def test_retries_wait_longer_and_end() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1, max_lost_attempts=2)
    life.take(f.JobLost(job_id=life.job(0), reason="gone"))
    life.take(f.JobLost(job_id=life.job(0, 2), reason="gone"))
    assert life.wake_at == life.now + RETRY_DELAY
    assert str(life.state.trials[life.trial(0)].reason).startswith("waits to run again: ")
    assert life.job(0, 3) not in life.state.jobs
    life.take(after=RETRY_DELAY)
    life.take(f.JobLost(job_id=life.job(0, 3), reason="gone"))
    assert life.ended()[life.trial(0)] == (
        S.FAILED,
        "it was lost 3 times, the last time: gone",
    )


def test_a_trial_that_has_begun_comes_before_new_ones() -> None:
    life = Life(trial_concurrency=1, max_trial_number=3)
    life.take(life.suggestion())  # asked for in advance
    assert list(life.state.queued) == [life.trial(1)]
    life.take(f.JobLost(job_id=life.job(0), reason="the allocation was canceled"))
    assert list(life.state.queued) == [life.trial(1)]
    assert life.job(0, 2) in life.state.jobs
    life.take(f.JobLost(job_id=life.job(0, 2), reason="the allocation was canceled"))
    assert life.job(1) in life.state.jobs  # while the other one waits for the time of its next attempt


def test_a_lost_attempt_of_a_stopped_trial_is_not_tried_again() -> None:
    life = Life()
    life.start(0)
    life.take(f.StopRequested(trial_id=life.trial(0)))
    life.take(f.JobLost(job_id=life.job(0), reason="the host was rebooted"))
    assert life.ended()[life.trial(0)][0] is S.USER_CANCELED


def test_max_trial_duration() -> None:
    life = Life(trial_concurrency=2, max_trial_duration=MINUTE)
    life.start(0)
    life.take(after=MINUTE / 2)
    life.start(1)
    assert life.wake_at == life.now + MINUTE / 2
    facts = life.take(after=MINUTE / 2)
    assert [fact.job_id for fact in facts if isinstance(fact, f.StopOrdered)] == [life.job(0)]
    assert life.wake_at == life.now + MINUTE / 2
    life.end(0, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.ended()[life.trial(0)] == (
        S.EARLY_STOPPED,
        "exceeded maxTrialDuration (60 s)",
    )


def test_a_new_search_space_cancels_what_is_not_placed() -> None:
    life = Life(trial_concurrency=1, max_trial_number=4, tuner=False)
    life.take(life.suggestion())
    life.take(life.suggestion())
    life.take(
        f.ConfigChanged(
            changes={}, limits=life.state.limits, search_space={"y": {"_type": "uniform", "_value": [0, 1]}}
        )
    )
    assert life.ended()[life.trial(1)] == (
        S.SYS_CANCELED,
        "the search space or its constraints were changed; the trial had not started",
    )
    assert life.trial(0) in life.state.trials and life.state.budget == 3


def untried(life: Life) -> list[int | None]:
    """The parameter ids that the tuner may give again."""
    ids = {r.fact.trial_id: r.fact.parameter_id for r in life.log if isinstance(r.fact, f.Suggested)}
    return [ids[r.fact.trial_id] for r in life.log if isinstance(r.fact, f.TrialEnded) and r.fact.untried]


@pytest.mark.parametrize("without_place", [False, True])
def test_what_a_new_search_space_cancels_was_never_tried(without_place: bool) -> None:
    life = Life(trial_concurrency=3, max_trial_number=4, tuner=False)
    life.take(life.suggestion())
    life.wait_reason = "waits for 1 GPU" if without_place else None
    if not without_place:
        life.take(f.ConfigChanged(changes={}, limits=replace(life.state.limits, trial_concurrency=1)))
    life.take(life.suggestion())
    life.take(life.suggestion())
    life.take(f.StopRequested(trial_id=life.trial(1)))
    assert life.ended()[life.trial(1)][0] is S.USER_CANCELED
    life.take(f.TunerExhausted())
    life.take(f.ConfigChanged(changes={}, limits=life.state.limits, search_space={}))
    assert untried(life) == [2] and not life.state.exhausted
    life.end(0)
    assert untried(life) == [2]


def test_a_set_that_crossed_the_change_of_the_space_is_cancelled_too() -> None:
    life = Life(trial_concurrency=1, max_trial_number=4, tuner=False)
    asked_at = life.state.number
    life.take(f.ConfigChanged(changes={}, limits=life.state.limits, search_space={}))
    life.take(replace(life.suggestion(), fed_to=asked_at))
    assert untried(life) == [0] and not life.state.trials
    life.take(replace(life.suggestion(), fed_to=life.state.number))
    assert life.state.trials


def test_what_had_no_time_left_was_never_tried_unless_it_is_run_again() -> None:
    life = Life(trial_concurrency=1, max_trial_number=4, max_experiment_duration=timedelta(hours=1))
    life.start(0)
    life.take(life.suggestion(), f.TunerExhausted())
    life.take(after=timedelta(hours=1))
    assert untried(life) == [1] and not life.state.exhausted
    life.take(f.ExperimentStopRequested())
    assert untried(life) == [1]


def test_pause_and_go_on() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.take(f.StopRequested(trial_id=life.trial(0), kind=f.StopKind.PAUSE))
    life.end(0, None, reason=f.EndReason.STOPPED, signal=15)
    trial = life.state.trials[life.trial(0)]
    assert trial.status is S.PAUSED and life.state.status is E.DRAINING
    life.take(f.ResumeRequested(trial_id=trial.id))
    assert life.job(0, 2) in life.state.jobs
    life.start(0, 2)
    life.end(0, attempt=2)
    assert life.ended()[trial.id][0] is S.SUCCEEDED


def test_a_pause_that_is_taken_back_says_that_the_trial_continues() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    trial = life.state.trials[life.trial(0)]
    life.take(f.StopRequested(trial_id=trial.id, kind=f.StopKind.PAUSE))
    assert (trial.reason or "").startswith("is being paused")
    life.take(f.ResumeRequested(trial_id=trial.id))
    assert trial.status is S.RUNNING
    assert (
        trial.reason
        == "is being stopped for a pause that was taken back, may save its state first, and continues"
    )
    life.end(0, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.job(0, 2) in life.state.jobs


def test_a_silent_keeper_makes_its_trials_unknown_until_it_speaks() -> None:
    life = Life(trial_concurrency=1)
    life.start(0)
    life.take(f.KeeperSilent(keeper_id="local", reason="silent since noon"))
    trial = life.state.trials[life.trial(0)]
    assert trial.status is S.UNKNOWN and "silent since noon" in (trial.reason or "")
    assert life.take(f.KeeperSilent(keeper_id="local", reason="silent since noon")) == []
    life.take(f.KeeperHeard(keeper_id="local"))
    assert trial.status is S.RUNNING


def test_doubled_and_early_packets_are_no_news() -> None:
    life = Life()
    assert life.start(0)
    assert life.start(0) == []
    assert life.metric(0, 1, 0.1) == []
    assert len(life.metric(0, 0, 0.1)) == 1
    assert life.metric(0, 0, 0.1) == []
    life.end(0)
    assert life.end(0) == []
    assert life.start(0) == []


def test_what_was_in_the_way_of_a_start_is_forgotten_with_it() -> None:
    life = Life()
    life.take(f.JobNoted(job_id=life.job(0), note="the attempt waits for its code: No space left on device"))
    trial = life.state.trials[life.trial(0)]
    assert trial.note is not None
    life.start(0)
    assert trial.note is None


def test_skipped_frames_keep_their_position_and_show_on_the_trial() -> None:
    life = Life()
    life.start(0)
    life.take(f.FrameSkipped(job_id=life.job(0), position=0, reason="frame 0 is no JSON"))
    assert life.state.trials[life.trial(0)].note == "frame 0 is no JSON"
    assert len(life.metric(0, 1, 0.1)) == 1


def test_customised_trials_count_towards_the_budget() -> None:
    life = Life(trial_concurrency=1, max_trial_number=2)
    custom = f.Suggested(
        trial_id=life.trial(1),
        sequence=1,
        source=f.SuggestionSource.CUSTOMIZED,
        parameter_id=None,
        parameters="{}",
    )
    life.take(custom)
    assert life.state.budget == 0
    life.end(0)
    life.end(1)
    assert life.state.status is E.DONE


def test_the_first_final_metric_counts() -> None:
    life = Life()
    life.start(0)
    life.metric(0, 0, 0.5, "FINAL")
    life.metric(0, 1, 0.7, "FINAL")
    assert life.state.trials[life.trial(0)].final_value == 0.5


def test_an_illegal_pair_is_our_fault_and_says_so() -> None:
    life = Life()
    life.start(0)
    late = f.Recorded(life.state.number + 1, life.now, f.JobStarted(job_id=life.job(0), started_at=life.now))
    with pytest.raises(InvalidTransition, match="is RUNNING and cannot take"):
        apply(life.state, late)


def test_the_log_folds_to_the_same_state_and_the_snapshot_too() -> None:
    life = Life(trial_concurrency=2, max_trial_number=6, max_trial_duration=MINUTE)
    life.start(0)
    life.metric(0, 0, 0.25)
    life.take(f.StopRequested(trial_id=life.trial(1)))
    life.take(f.JobLost(job_id=life.job(0), reason="gone"))
    assert refold(life.log) == life.state
    text = codec.dumps(codec.encode(life.state))
    again = codec.decode(ExperimentState, codec.loads(text))
    rebuild(again)
    assert again == life.state
    for name in ("queued", "retrying", "unsettled", "condemned", "running", "closing_jobs"):
        assert set(getattr(again, name)) == set(getattr(life.state, name)), name
    assert again.open_jobs == life.state.open_jobs


def test_trial_ids_are_unique_and_of_nnis_form() -> None:
    ids = [trial_id_of("abc12345", sequence) for sequence in range(20_000)]
    assert len(set(ids)) == len(ids)
    assert all(len(i) == 5 and i[0].isalpha() and i.islower() | i.isalnum() for i in ids)
    assert trial_id_of("abc12345", 0) != trial_id_of("abc12346", 0)
    longer = trial_id_of("abc12345", 26 * 36**4 + 5)
    assert len(longer) == 6


def test_command_numbers_follow_the_place() -> None:
    life = Life(trial_concurrency=1)
    job = life.state.jobs[life.job(0)]
    assert job.placed == f.JobPlaced(job_id=life.job(0), place=PLACE, cmd_seq=1)
    assert job.last_cmd == 1


def test_a_replaced_directory_of_a_keeper_stays_known() -> None:
    life = Life()
    for instance in ("i2", "i2", "i3"):
        life.take(f.KeeperBound(keeper_id="local", instance=instance, boot_id="b1"))
    assert life.state.keepers["local"].retired == ["i1", "i2"]
    assert refold(life.log) == life.state


def test_a_keeper_that_is_gone_is_forgotten_with_what_it_had_to_acknowledge() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.take(f.StopRequested(trial_id=life.trial(0)))
    job_id = next(iter(life.state.jobs))
    life.take(f.JobLost(job_id=job_id, reason="its pod was deleted"))
    assert list(life.state.closing_jobs) == [job_id]
    assert life.take(f.KeeperGone(keeper_id="local"))
    assert not life.state.keepers and not life.state.jobs
    assert life.touched.keepers == {"local"}
    late = (
        f.KeeperGone(keeper_id="local"),
        f.KeeperAcknowledged(keeper_id="local", acked_cmd=9),
        f.KeeperSilent(keeper_id="local", reason="hush"),
        f.KeeperHeard(keeper_id="local"),
        f.KeeperBound(keeper_id="local", instance="i2", boot_id="b1"),
    )
    assert life.take(*late) == []
