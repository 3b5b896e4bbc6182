"""Trials on silent hosts: lent slots, stops by users, declared losses, and the lease."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nnimgr.core.running import requests
from nnimgr.core.running.requests import RequestRefused, UnknownTrial
from nnimgr.rules import facts as f
from nnimgr.rules.silent_hosts import SILENT_GRACE
from tests.rules.driver import Life, refold

S = f.TrialStatus
SILENT = f.KeeperSilent(keeper_id="local", reason="the keeper on ash has not called for 30 s")
HEARD = f.KeeperHeard(keeper_id="local")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def life() -> Life:
    life = Life(trial_concurrency=1, max_trial_number=2, max_lost_attempts=1)
    life.start(0)
    life.take(SILENT)
    return life


def test_the_trial_says_since_when_and_what_ends_it(life: Life) -> None:
    trial = life.state.trials[life.trial(0)]
    assert trial.status is S.UNKNOWN and trial.reason is not None
    assert trial.reason.startswith(
        "unknown since 2026-01-01 00:00:00 UTC: the keeper on ash has not called for 30 s;"
    )
    assert "answers again" in trial.reason and "restarted" in trial.reason
    assert f'"nnictl trial lost {life.state.id} -T {trial.id}"' in trial.reason
    assert life.take(SILENT) == []


def test_what_was_placed_and_has_not_started_is_unknown_too() -> None:
    life = Life(trial_concurrency=1)
    life.take(SILENT)
    trial = life.state.trials[life.trial(0)]
    assert trial.status is S.UNKNOWN
    life.take(HEARD)
    assert (trial.status, trial.reason) == (S.WAITING, "is being started")


def test_its_slot_is_given_to_another_after_a_while_and_comes_back_by_itself(life: Life) -> None:
    assert life.wake_at == life.now + timedelta(minutes=10)
    assert len(life.state.trials) == 1
    assert any(isinstance(fact, f.SlotLent) for fact in life.take(after=10 * MINUTE))
    trial = life.state.trials[life.trial(0)]
    assert (trial.reason or "").endswith("its slot is given to another trial meanwhile")
    assert life.state.open_jobs == 2 and life.wake_at is None
    life.take(HEARD)
    assert trial.status is S.RUNNING and not life.state.lent and life.state.open_jobs == 2
    life.end(0)
    life.take()
    assert life.state.open_jobs == 1
    assert refold(life.log) == life.state


def test_a_stop_that_a_user_wants_ends_it_soon_though_nobody_hears_of_it(life: Life) -> None:
    life.take(f.StopRequested(trial_id=life.trial(0)))
    trial = life.state.trials[life.trial(0)]
    assert "is being stopped: a user stopped it; the stop cannot reach its host: unknown since" in (
        trial.reason or ""
    )
    assert life.wake_at == life.now + SILENT_GRACE
    life.take(after=SILENT_GRACE)
    status, reason = life.ended()[life.trial(0)]
    assert status is S.USER_CANCELED and "the trial may still run on its machine (unknown since" in reason
    assert life.job(0) in life.state.jobs  # the stop is not acknowledged
    life.end(1, acked=0)
    assert life.state.status is f.ExperimentStatus.DONE
    life.take(HEARD)
    assert life.state.status is f.ExperimentStatus.DONE and life.job(0) in life.state.jobs
    life.take(f.KeeperAcknowledged(keeper_id="local", acked_cmd=life.cmd_seq))
    assert not life.state.jobs
    assert refold(life.log) == life.state


def test_a_stop_by_an_assessor_or_a_pause_waits_for_the_host(life: Life) -> None:
    life.take(f.StopRequested(trial_id=life.trial(0), kind=f.StopKind.PAUSE))
    life.take(after=5 * MINUTE)
    assert life.state.trials[life.trial(0)].status is S.UNKNOWN


def test_a_user_stops_what_the_assessor_had_stopped_on_a_silent_host(life: Life) -> None:
    life.take(f.Verdict(trial_id=life.trial(0), attempt=1, position=0))
    life.take(after=5 * MINUTE)
    assert life.state.trials[life.trial(0)].status is S.UNKNOWN
    life.take(*requests.stop_trial(life.trial(0))(life.state))
    status, reason = life.ended()[life.trial(0)]
    assert status is S.USER_CANCELED and "the trial may still run on its machine (unknown since" in reason
    assert refold(life.log) == life.state


def test_a_stop_of_the_experiment_ends_with_a_silent_host(life: Life) -> None:
    life.take(f.ExperimentStopRequested())
    assert life.state.status is f.ExperimentStatus.DRAINING
    life.take(after=SILENT_GRACE)
    assert life.state.status is f.ExperimentStatus.STOPPED
    assert life.ended()[life.trial(0)][0] is S.SYS_CANCELED


def test_a_stop_of_the_experiment_ends_what_the_assessor_had_stopped_before(life: Life) -> None:
    life.take(f.Verdict(trial_id=life.trial(0), attempt=1, position=0))
    life.take(after=5 * MINUTE)
    assert life.state.trials[life.trial(0)].status is S.UNKNOWN
    life.take(f.ExperimentStopRequested())
    assert life.state.status is f.ExperimentStatus.STOPPED
    assert life.ended()[life.trial(0)][0] is S.EARLY_STOPPED
    assert refold(life.log) == life.state


def test_a_user_declares_a_trial_lost(life: Life) -> None:
    facts = life.take(*requests.lose_trial(life.trial(0))(life.state))
    assert [type(fact) for fact in facts] == [
        f.LossDeclared,
        f.StopOrdered,
        f.JobLost,
        f.AttemptDue,
        f.JobPlaced,
    ]
    trial = life.state.trials[life.trial(0)]
    assert (trial.attempt, trial.lost_attempts, trial.target) == (2, 1, None)
    assert life.end(0) == []  # the trial's late end is ignored
    life.start(0, 2)
    life.take(f.KeeperHeard(keeper_id="local"), SILENT)
    life.take(*requests.lose_trial(life.trial(0))(life.state))
    status, reason = life.ended()[life.trial(0)]
    assert status is S.FAILED and "a user declared the trial lost" in reason  # maxRetries.infrastructure is 1
    assert refold(life.log) == life.state


def test_only_an_unknown_trial_can_be_lost() -> None:
    life = Life()
    life.start(0)
    with pytest.raises(RequestRefused, match="is RUNNING: only an UNKNOWN trial"):
        requests.lose_trial(life.trial(0))(life.state)
    with pytest.raises(UnknownTrial):
        requests.lose_trial("nope")(life.state)


def test_a_trial_that_its_lease_has_ended_is_tried_anew(life: Life) -> None:
    life.take(HEARD)
    life.end(0, None, reason=f.EndReason.LEASE, signal=9)
    trial = life.state.trials[life.trial(0)]
    assert (trial.attempt, trial.lost_attempts) == (2, 1)
