"""Lives of trials that save checkpoints: pauses, losses, stops of the experiment, and deleted checkpoints."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nnimgr.core.running import requests
from nnimgr.core.running.requests import RequestRefused
from nnimgr.rules import facts as f
from nnimgr.rules.silent_hosts import STOP_LIMIT
from tests.rules.driver import refold
from tests.rules.saving import Saving

S = f.TrialStatus
E = f.ExperimentStatus
SECOND = timedelta(seconds=1)


def due(facts: list[f.Fact]) -> f.AttemptDue:
    (found,) = (fact for fact in facts if isinstance(fact, f.AttemptDue))
    return found


def test_a_lost_attempt_continues_from_the_newest_checkpoint() -> None:
    saving = Saving()
    saving.report(0.1, 0.2)
    saving.save(2)
    saving.report(0.3)
    facts = saving.lose()
    origin = f.Origin(attempt=1, number=1, keeper_id="local", step=2, position=3, reports=2)
    assert (due(facts).origin, due(facts).rolled_back) == (origin, 1)
    trial = saving.trial
    assert (trial.intermediates, trial.latest_value, trial.lost_attempts) == (2, 0.2, 1)
    saving.start()
    assert saving.life.state.jobs[saving.job_id].recorded == 3
    saving.report(0.35)
    assert (saving.trial.intermediates, saving.trial.latest_value) == (3, 0.35)
    assert refold(saving.life.log) == saving.life.state


def test_a_checkpoint_forgives_earlier_losses() -> None:
    saving = Saving(max_lost_attempts=1)
    for step in range(1, 5):  # without checkpoints, the second loss would end the trial
        saving.save(step)
        saving.lose()
        saving.start()
    assert saving.trial.status is S.RUNNING


def test_a_failed_command_continues_from_its_checkpoint_as_often_as_it_may() -> None:
    saving = Saving(max_failed_attempts=1)
    saving.save(5)
    again = due(saving.end(1))
    assert again.failed and again.origin is not None and again.origin.step == 5
    saving.start()
    saving.end(1)
    assert saving.life.ended()[saving.life.trial(0)][0] is S.FAILED


def test_a_pause_asks_for_a_save_and_the_resume_continues() -> None:
    saving = Saving()
    saving.report(0.1)
    (stop,) = (fact for fact in saving.pause() if isinstance(fact, f.StopOrdered))
    assert stop.grace == 5 * SECOND
    saving.report(0.2)
    saving.save(2, asked=True)
    saving.end(0)  # the trial leaves by itself after it was asked
    trial = saving.trial
    assert (trial.status, trial.reason) == (S.PAUSED, "a user paused it; the trial will continue from step 2")
    assert saving.life.state.open_jobs == 0
    again = due(saving.resume())
    assert again.origin is not None and again.rolled_back == 0
    saving.start()
    saving.report(0.3)
    assert saving.trial.intermediates == 3


def test_a_paused_trial_may_continue_after_the_time_of_the_experiment() -> None:
    saving = Saving(max_experiment_duration=60 * SECOND)
    saving.pause()
    saving.save(2, asked=True)
    saving.end(0)
    saving.life.take(after=61 * SECOND)
    state = saving.life.state
    assert (state.status, state.drain) == (f.ExperimentStatus.DRAINING, f.DrainReason.BUDGET)
    assert saving.trial.status is S.PAUSED
    due(saving.resume())
    saving.start()
    saving.end(0)
    assert saving.life.ended()[saving.id][0] is S.SUCCEEDED
    assert state.status is f.ExperimentStatus.DONE


def test_a_trial_that_finishes_during_its_pause_has_finished() -> None:
    saving = Saving()
    saving.save(1)
    saving.pause()
    saving.end(0)
    assert saving.life.ended()[saving.life.trial(0)][0] is S.SUCCEEDED


def test_a_result_after_the_last_save_means_that_the_trial_has_finished() -> None:
    saving = Saving()
    saving.pause()
    saving.save(1, asked=True)
    saving.life.final(0, 0.9, 0)
    saving.end(0)
    assert saving.life.ended()[saving.life.trial(0)][0] is S.SUCCEEDED


def test_a_pause_without_a_save_says_what_is_done_again() -> None:
    saving = Saving()
    saving.save(1)
    saving.report(0.1, 0.2)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    assert saving.trial.reason == (
        "a user paused it; the trial will continue from step 1, and report 2 results again"
    )


def test_a_trial_without_a_checkpoint_starts_from_the_beginning() -> None:
    saving = Saving()
    saving.report(0.1)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    assert saving.trial.reason == (
        "a user paused it; the trial has saved no checkpoint, and will start from the beginning"
    )
    assert due(saving.resume()).origin is None
    assert saving.trial.intermediates == 0


def test_a_pause_that_was_taken_back_continues_at_once() -> None:
    saving = Saving()
    saving.save(1)
    saving.pause()
    saving.resume()
    again = due(saving.end(None, f.EndReason.STOPPED))
    paused = "its stop was taken back while its attempt was ending"
    assert again.reason == f"{paused}; the trial will continue from step 1"


def test_only_paused_trials_can_be_resumed_and_ending_ones_not_paused() -> None:
    saving = Saving()
    with pytest.raises(RequestRefused, match="is RUNNING: only a paused trial can be resumed"):
        saving.resume()
    saving.pause()
    assert saving.pause() == []
    saving.life.take(f.StopRequested(trial_id=saving.life.trial(0)))
    with pytest.raises(RequestRefused, match="is being stopped, because a user stopped it"):
        saving.pause()


def test_a_pause_of_a_trial_that_waits_again_does_not_say_that_it_had_not_started() -> None:
    saving = Saving()
    saving.save(4)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    saving.life.wait_reason = "no room"
    saving.resume()
    saving.pause()
    again = "a user paused it; the trial waited for its next attempt; the trial will continue from step 4"
    assert (saving.trial.status, saving.trial.reason) == (S.PAUSED, again)


def test_an_experiment_waits_for_its_paused_trials_and_a_stop_does_not() -> None:
    saving = Saving()
    saving.save(1)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    life = saving.life
    assert life.state.status is E.DRAINING
    life.take(f.ExperimentStopRequested())
    assert (life.state.status, saving.trial.status) == (E.STOPPED, S.PAUSED)
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert (life.state.status, saving.trial.status) == (E.DRAINING, S.PAUSED)
    saving.resume()
    assert saving.trial.status is S.WAITING


def test_a_stopped_experiment_parks_trials_with_checkpoints_and_its_resume_continues_them() -> None:
    saving = Saving(trial_concurrency=2, max_trial_number=2)
    life = saving.life
    life.start(1)
    saving.save(7)
    life.take(f.ExperimentStopRequested())
    saving.end(None, f.EndReason.STOPPED)
    life.end(1, None, reason=f.EndReason.STOPPED)
    assert life.state.status is E.STOPPED
    trial = saving.trial
    assert (trial.status, trial.parked) == (S.PAUSED, True)
    assert trial.reason == "the experiment was stopped; the trial will continue from step 7"
    assert life.ended() == {life.trial(1): (S.SYS_CANCELED, "the experiment was stopped")}
    facts = life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert due(facts).trial_id == life.trial(0) and not saving.trial.parked
    assert refold(life.log) == life.state


@pytest.mark.parametrize("paused", [True, False])
def test_a_stopped_experiment_ends_a_trial_that_may_still_run(paused: bool) -> None:
    """A resume would start another attempt beside it."""
    saving = Saving(max_trial_number=1)
    life = saving.life
    saving.save(7)
    if paused:
        saving.pause()
    life.take(f.ExperimentStopRequested())
    limit = STOP_LIMIT + (life.state.limits.save_within if paused else timedelta(0))
    facts = life.take(after=limit)
    assert next(fact for fact in facts if isinstance(fact, f.JobLost)).unproven
    status, reason = life.ended()[life.trial(0)]
    assert status is S.SYS_CANCELED
    within = f"{limit.total_seconds():.0f} s"
    assert reason.endswith(
        f"the trial's end was not reported within {within}; it may still run on its machine"
    )
    facts = life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert not any(isinstance(fact, f.AttemptDue) for fact in facts)
    assert refold(life.log) == life.state


@pytest.mark.parametrize("saves", [True, False])
def test_a_stop_may_let_trials_save(saves: bool) -> None:
    """Trial 1 has saved nothing before. It is asked, too, and ends without a save."""
    saving = Saving(trial_concurrency=2, max_trial_number=2)
    life = saving.life
    life.start(1)
    saving.save(7)
    facts = life.take(f.ExperimentStopRequested(save=saves))
    stops = [fact.save_within for fact in facts if isinstance(fact, f.StopOrdered)]
    assert stops == [life.state.limits.save_within if saves else None] * 2
    saving.save(9, asked=saves)
    saving.end(0 if saves else None, f.EndReason.EXITED if saves else f.EndReason.STOPPED)
    life.end(1, None, reason=f.EndReason.STOPPED)
    assert (saving.trial.status, saving.trial.parked) == (S.PAUSED, True)
    assert saving.trial.reason == "the experiment was stopped; the trial will continue from step 9"
    assert life.ended() == {life.trial(1): (S.SYS_CANCELED, "the experiment was stopped")}
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert not life.state.stop_saves and refold(life.log) == life.state


def test_a_stop_with_a_save_continues_a_trial_from_its_first_checkpoint() -> None:
    saving = Saving()
    saving.report(0.1)
    saving.life.take(f.ExperimentStopRequested(save=True))
    saving.save(1, asked=True)
    saving.end(0)
    assert saving.trial.parked
    assert saving.trial.reason == "the experiment was stopped; the trial will continue from step 1"


def test_a_stop_waits_for_the_saves_of_trials() -> None:
    saving = Saving()
    life = saving.life
    life.take(f.ExperimentStopRequested(save=True))
    assert life.wake_at == life.now + STOP_LIMIT + life.state.limits.save_within
    life.take(after=life.state.limits.save_within)  # the trial has been silent for longer than STOP_LIMIT
    saving.save(1, asked=True)
    saving.end(0)
    assert saving.trial.parked


def test_a_stop_does_not_ask_multi_phase_trials_to_save() -> None:
    life = Saving(multi_phase=True).life
    facts = life.take(f.ExperimentStopRequested(save=True))
    assert [fact.save_within for fact in facts if isinstance(fact, f.StopOrdered)] == [None]


def test_the_newest_checkpoints_and_the_origin_are_kept() -> None:
    saving = Saving(checkpoints_kept=2)
    saving.save(1)
    saving.save(2)
    assert saving.trial.pruned == []
    (pruned,) = (each for each in saving.save(3) if isinstance(each, f.CheckpointsPruned))
    assert pruned == f.CheckpointsPruned(job_id=saving.job_id, keeper_id="local", up_to=1)
    first = saving.job_id
    saving.lose()
    saving.start()  # from checkpoint 3 of the first attempt
    facts = [*saving.save(4), *saving.save(5), *saving.save(6)]
    told = [each for each in facts if isinstance(each, f.CheckpointsPruned)]
    assert told == [
        f.CheckpointsPruned(job_id=first, keeper_id="local", up_to=2),
        f.CheckpointsPruned(job_id=saving.job_id, keeper_id="local", up_to=1),
    ]
    assert [each.origin.step for each in saving.trial.checkpoints] == [3, 5, 6]


def test_checkpoints_after_the_origin_are_deleted_with_the_results_that_do_not_count() -> None:
    saving = Saving()
    saving.save(1)
    saving.save(2)
    # The files of checkpoint 2 turn out to be missing when the next attempt starts.
    saving.lose()
    lost = saving.life.end(0, None, attempt=2, reason=f.EndReason.CHECKPOINT_LOST)
    again = due(lost)
    assert again.origin is not None and again.origin.step == 1
    assert saving.trial.attempt == 3


def test_a_recreated_keeper_directory_has_no_checkpoints() -> None:
    saving = Saving()
    saving.save(1)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    saving.life.take(f.KeeperBound(keeper_id="local", instance="i2", boot_id="b1"))
    again = due(saving.resume())
    assert again.origin is None
    assert again.reason == (
        "its pause has ended; no host has a usable checkpoint of the trial any more: it will start from the "
        "beginning"
    )


def test_a_resumed_trial_says_that_it_waits_for_a_slot() -> None:
    saving = Saving(trial_concurrency=1, max_trial_number=2)
    saving.save(1)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    saving.life.start(1)
    due(saving.resume())
    assert saving.trial.reason == (
        "waits for a free slot: its pause has ended; the trial will continue from step 1"
    )


def test_a_waiting_attempt_does_not_wait_for_a_host_that_is_gone() -> None:
    saving = Saving()
    saving.save(1)
    saving.life.wait_reason = "its machine is busy"
    saving.lose()
    assert saving.trial.job_id is not None and saving.trial.origin is not None
    assert saving.life.take(f.MachineRemoved(keeper_id="local"))[1:] == []  # its files are copied first
    facts = saving.life.take(f.MachineGone(keeper_id="local"))
    assert due(facts).origin is None
    assert "its checkpoint cannot be used any more" in due(facts).reason


def test_a_trial_whose_silent_machine_was_given_up_does_not_wait_for_its_checkpoint() -> None:
    saving = Saving()
    saving.save(1)
    life = saving.life
    life.take(f.KeeperSilent(keeper_id="local", reason="no call for 30 s"))
    life.take(*requests.lose_trial(life.trial(0))(life.state))
    (again,) = (recorded.fact for recorded in life.log if isinstance(recorded.fact, f.AttemptDue))
    assert again.origin is None


def test_a_platform_without_checkpoints_starts_from_the_beginning() -> None:
    saving = Saving()
    saving.save(1, usable=False)
    assert due(saving.lose()).origin is None


def test_a_pause_does_not_count_for_the_longest_duration_but_earlier_attempts_do() -> None:
    saving = Saving(max_trial_duration=60 * SECOND)
    saving.save(1)
    saving.life.take(after=40 * SECOND)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    saving.life.take(after=1000 * SECOND)
    saving.resume()
    saving.start()
    assert saving.life.wake_at == saving.life.now + 20 * SECOND
    saving.life.take(after=20 * SECOND)
    assert saving.trial.target is f.StopKind.DURATION


def test_a_verdict_that_comes_while_pausing_ends_the_trial() -> None:
    saving = Saving()
    saving.report(0.1)
    saving.save(1)
    saving.pause()
    saving.life.take(f.Verdict(trial_id=saving.life.trial(0), attempt=1, position=0))
    saving.end(None, f.EndReason.STOPPED)
    assert saving.life.ended()[saving.life.trial(0)][0] is S.EARLY_STOPPED


def test_an_attempt_that_fails_while_it_is_being_paused_is_tried_again_after_the_pause() -> None:
    saving = Saving(max_failed_attempts=1)
    saving.save(1)
    saving.pause()
    saving.end(1)
    assert saving.trial.status is S.PAUSED
    assert "its attempt failed meanwhile: exited with code 1" in (saving.trial.reason or "")


def test_multi_phase_trials_start_from_the_beginning() -> None:
    saving = Saving(multi_phase=True)
    saving.save(1)
    assert saving.trial.checkpoints == [] and due(saving.lose()).origin is None


def test_a_result_before_the_checkpoint_counts_in_the_attempt_that_continues() -> None:
    saving = Saving()
    saving.life.take(f.MetricReported(saving.job_id, 0, "FINAL", 0, "0", 0.5, "0.5"))
    saving.save(9)
    saving.lose()
    saving.start()
    assert (saving.trial.final_value, saving.trial.final_text) == (0.5, "0.5")
    saving.end(0)
    assert saving.life.ended()[saving.life.trial(0)] == (S.SUCCEEDED, "exited with code 0")


def test_a_stop_by_a_user_wins_over_the_stop_of_the_experiment() -> None:
    saving = Saving()
    life = saving.life
    saving.save(1)
    life.take(f.ExperimentStopRequested())
    life.take(f.StopRequested(trial_id=life.trial(0)))
    saving.end(None, f.EndReason.STOPPED)
    assert life.ended()[life.trial(0)] == (S.USER_CANCELED, "a user stopped it")


def test_a_verdict_on_a_parked_trial_is_not_taken_back_by_the_resume() -> None:
    saving = Saving()
    life = saving.life
    saving.save(1)
    life.take(f.ExperimentStopRequested())
    saving.end(None, f.EndReason.STOPPED)
    verdict = f.Verdict(trial_id=life.trial(0), attempt=1, position=0)
    life.take(verdict, f.ExperimentOpened(m_epoch=2, resumed=True))
    assert life.ended()[life.trial(0)][0] is S.EARLY_STOPPED


def test_a_stopped_trial_whose_checkpoint_became_unusable_gets_no_further_attempt() -> None:
    saving = Saving()
    life = saving.life
    saving.save(1)
    life.wait_reason = "its machine is busy"
    saving.lose()
    gone = f.MachineRemoved(keeper_id="local"), f.MachineGone(keeper_id="local")
    facts = life.take(f.StopRequested(trial_id=life.trial(0)), *gone)
    assert not [fact for fact in facts if isinstance(fact, f.AttemptDue)]
    assert life.ended()[life.trial(0)][0] is S.USER_CANCELED


def test_an_experiment_with_all_trials_waits_for_a_paused_one_though_the_first_have_failed() -> None:
    saving = Saving(trial_concurrency=2, max_trial_number=2, fail_fast=1)
    life = saving.life
    life.start(1)
    saving.pause()
    saving.end(None, f.EndReason.STOPPED)
    life.end(1, 1)
    assert (saving.trial.status, life.state.status) == (S.PAUSED, E.DRAINING)
    saving.resume()
    saving.start()
    saving.end(0)
    assert life.state.status is E.DONE


def test_a_running_trial_is_asked_to_save() -> None:
    saving = Saving()
    ask = requests.save_trial(saving.id)
    facts = saving.life.take(*ask(saving.life.state))
    order = f.SaveOrdered(job_id=saving.job_id, cmd_seq=2, within=30 * SECOND)
    assert facts == [f.SaveRequested(trial_id=saving.id), order]
    job = saving.life.state.jobs[saving.job_id]
    assert (job.save, job.last_cmd, saving.life.state.saving) == (order, 2, {})
    saving.save(1, asked=True)
    saving.report(0.5)
    assert saving.trial.status is S.RUNNING
    assert len(saving.life.take(*ask(saving.life.state))) == 2
    saving.end(0)
    assert saving.life.ended()[saving.life.trial(0)][0] is S.SUCCEEDED
    assert refold(saving.life.log) == saving.life.state


def test_a_trial_that_exits_after_a_save_without_a_pause_continues_at_once() -> None:
    saving = Saving()
    saving.life.take(*requests.save_trial(saving.id)(saving.life.state))
    saving.save(3, asked=True)
    again = due(saving.end(0))
    assert again.origin is not None and again.origin.step == 3 and not again.lost and not again.failed
    assert again.reason == (
        "it has exited with code 0 after it was asked to save its state; the trial will continue from step 3"
    )


def test_trials_that_are_not_asked_to_save() -> None:
    saving = Saving(max_trial_number=2)
    waiting = saving.life.state.trials[saving.id]
    with pytest.raises(RequestRefused, match="has ended, or does not exist"):
        requests.save_trial("zzzzz")(saving.life.state)
    saving.pause()
    with pytest.raises(RequestRefused, match="is being stopped or paused: a user paused it"):
        requests.save_trial(saving.id)(saving.life.state)
    saving.end(None, f.EndReason.STOPPED)
    assert waiting.status is S.PAUSED
    with pytest.raises(RequestRefused, match="is PAUSED: only a running trial can save its state"):
        requests.save_trial(saving.id)(saving.life.state)


def test_multi_phase_trials_are_not_asked_to_save() -> None:
    saving = Saving(multi_phase=True)
    with pytest.raises(RequestRefused, match="multi-phase trials"):
        requests.save_trial(saving.id)(saving.life.state)
