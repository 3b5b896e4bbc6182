"""The sentence that describes what an experiment is doing now."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from nnimgr.rules import facts as f
from nnimgr.rules.activity import happening, sentence_of
from nnimgr.rules.decisions import recorded_as
from nnimgr.rules.phrases import best_so_far
from tests.rules.driver import Life
from tests.rules.saving import Saving

E = f.ExperimentStatus


def now(life: Life, **more: Any) -> str:
    known: dict[str, Any] = {"searching": True, "outstanding": 0, "service_trouble": None}
    return happening(life.state, life.now, **known | more)


def test_work_and_progress() -> None:
    life = Life(trial_concurrency=2, max_trial_number=4, max_experiment_duration=timedelta(seconds=200))
    life.start(0)
    life.start(1)
    life.now += timedelta(seconds=50)
    assert now(life) == "2 of 2 slots busy, 0 of 4 finished, 50 of 200 s used"


def test_more_trials_run_than_there_are_slots_from_now_on() -> None:
    life = Life(trial_concurrency=3, max_trial_number=4)
    for sequence in range(3):
        life.start(sequence)
    for slots, told in (
        (2, "3 trials run (the next one starts when fewer than 2 of them run), 0 of 4 finished"),
        (1, "3 trials run (the next one starts when all of them have ended), 0 of 4 finished"),
        (3, "3 of 3 slots busy, 0 of 4 finished"),
    ):
        limits = replace(life.state.limits, trial_concurrency=slots)
        life.take(f.ConfigChanged(changes={}, limits=limits))
        assert now(life) == told


def test_what_is_waited_for() -> None:
    life = Life(trial_concurrency=3)
    life.wait_reason = "no GPU is free"
    life.start(0)
    life.end(0)
    life.start(1)
    told = "2 of 3 slots busy; 1 trial is being started; 1 trial cannot start yet: no GPU is free"
    assert now(life) == told
    life.take(f.MachineDrained(keeper_id="other"))
    told += "; 1 machine is drained (see: nnictl machine ls exp)"
    assert now(life) == told
    trouble = "; the training service is not open: no sshd"
    assert now(life, service_trouble="no sshd") == told + trouble


def test_reasons_that_differ_in_the_names_of_pods_are_told_once() -> None:
    life = Life(trial_concurrency=2)
    for sequence in range(2):
        pod = f"exp-{life.state.trial_id(sequence + 2)}-1"  # of the next trial
        life.wait_reason = f"waits for the keeper in its pod {pod}"
        life.start(sequence)
        life.end(sequence)
        if sequence == 0:
            assert f"1 trial cannot start yet: waits for the keeper in its pod {pod}" in now(life)
    assert "2 trials cannot start yet: each waits for the keeper in its pod ..." in now(life)


def test_a_tuner_that_is_slow() -> None:
    life = Life(tuner=False, trial_concurrency=2)
    assert now(life, outstanding=2) == "0 of 2 slots busy; the tuner was asked for 2 parameter sets"
    assert now(life, outstanding=1).endswith("the tuner was asked for a parameter set")
    assert now(life, searching=False).endswith("the tuner is being started")


def test_machines_that_are_silent() -> None:
    life = Life(trial_concurrency=1)
    life.start(0)
    life.take(f.KeeperSilent(keeper_id="local", reason="no word"))
    assert now(life) == "1 of 1 slots busy; 1 trial is on machines that do not answer"


def test_paused_trials_have_a_command_that_continues_one() -> None:
    life = Life(trial_concurrency=2, max_trial_number=2)
    told = []
    for sequence in range(2):
        life.start(sequence)
        life.take(f.StopRequested(trial_id=life.trial(sequence), kind=f.StopKind.PAUSE))
        life.end(sequence, None, reason=f.EndReason.STOPPED, signal=15)
        told.append(now(life).split("; ")[1 + (sequence == 0)])
    command = f'"nnictl trial resume {life.state.id} -T {life.trial(0)}"'
    assert told == [
        f"1 trial is paused by a user (to continue it: {command})",
        f"2 trials are paused by a user (to continue one: {command})",
    ]


def test_trials_that_do_not_count() -> None:
    life = Life(trial_concurrency=1, max_trial_number=3)
    life.start(0)
    life.end(0, 1)
    again = f.Suggested(
        trial_id=life.trial(life.state.next_sequence),
        sequence=life.state.next_sequence,
        source=f.SuggestionSource.RERUN,
        parameter_id=0,
        parameters="{}",
        retry_of=life.trial(0),
    )
    life.take(again)
    assert "0 of 3 finished (not counted: 1 retried)" in now(life)
    life.start(1)
    life.take(f.ExperimentStopRequested())
    life.end(1, None, reason=f.EndReason.STOPPED, signal=15)  # the other trial was queued
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert "0 of 3 finished (not counted: 1 retried, 2 SYS_CANCELED)" in now(life)


def test_the_scheduler_continues_the_trials_that_it_has_paused() -> None:
    first = Saving(trial_concurrency=2, max_trial_number=2)
    second = Saving(life=first.life, sequence=1)
    for saving in (first, second):
        saving.save(1)
    first.pause()
    life = first.life
    pause = f.Decided(
        trial_id=second.id, kind=f.DecisionKind.PAUSE, cause=life.state.number, reason="others are awaited"
    )
    life.take(*recorded_as(life.state, pause))
    for saving in (first, second):
        saving.end(None, f.EndReason.STOPPED)
    command = f'"nnictl trial resume {life.state.id} -T {first.id}"'
    told = now(life).split("; ")[1:3]
    assert told == [
        "1 trial is paused by the scheduler",
        f"1 trial is paused by a user, and the scheduler waits for it (to continue it: {command})",
    ]


def test_a_limit_below_the_number_of_trials() -> None:
    life = Life(trial_concurrency=3, max_trial_number=3)
    for sequence in range(3):
        life.start(sequence)
    lower = replace(life.state.limits, max_trial_number=1)
    life.take(f.ConfigChanged(changes={"maxTrialNumber": 1}, limits=lower))
    life.end(0)
    assert "1 of 3 finished, above the limit of 1 trial; " in now(life)
    life.end(1)
    assert "2 finished, above the limit of 1 trial; " in now(life)
    life.end(2)
    assert now(life) == "finished: 3 trials, above the limit of 1 trial"


def test_a_limit_below_the_number_of_trials_after_the_end() -> None:
    life = Life(trial_concurrency=1, max_trial_number=2)
    for sequence in range(2):
        life.start(sequence)
        life.end(sequence)
    ended_at = life.state.ended_at
    assert ended_at is not None and now(life) == "finished: 2 of 2 trials"
    lower = replace(life.state.limits, max_trial_number=1)
    life.take(f.ConfigChanged(changes={"maxTrialNumber": 1}, limits=lower), after=timedelta(minutes=1))
    assert now(life) == "finished: 2 trials, above the limit of 1 trial"
    assert (life.state.status, life.state.ended_at) == (f.ExperimentStatus.DONE, ended_at)


def test_the_end() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    reached = "no more trials are created: maxTrialNumber (1) is reached"
    assert now(life) == f"1 of 1 slots busy, 0 of 1 finished; {reached}"
    life.end(0)
    assert now(life) == "finished: 1 of 1 trials"
    assert sentence_of(E.ERROR, "the tuner has died") == "ended by an error: the tuner has died"
    assert sentence_of(E.STOPPED, "a user stopped it") == "a user stopped it"


def test_the_best_so_far() -> None:
    assert best_so_far(0.12345678, 7) == "best 0.123457, trial 7"


def test_a_stop_names_the_trials_for_which_it_waits() -> None:
    life = Life(trial_concurrency=5, max_trial_number=5)
    for sequence in range(5):
        life.start(sequence)
    life.take(f.ExperimentStopRequested())
    titles = [f"{sequence} ({life.trial(sequence)})" for sequence in range(5)]
    assert now(life) == f"the stop waits for 5 trials to end: {', '.join(titles[:3])} and 2 more"
    for sequence in range(3):
        life.end(sequence, None, reason=f.EndReason.STOPPED, signal=15)
    assert now(life) == f"the stop waits for 2 trials to end: {titles[3]}, {titles[4]}"
    life.end(3, None, reason=f.EndReason.STOPPED, signal=15)
    assert now(life) == f"the stop waits for trial {titles[4]} to end"
