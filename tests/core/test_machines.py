"""Removed machines: what happens to their trials, and that the state remembers it."""

from __future__ import annotations

from datetime import timedelta

from nnimgr.codec import decode, encode
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState, MachineState
from tests.rules.driver import Life

S = f.TrialStatus


def stopped(life: Life, sequence: int) -> list[f.Fact]:
    return life.take(
        f.JobEnded(
            job_id=life.job(sequence),
            reason=f.EndReason.STOPPED,
            exit_code=None,
            signal=15,
            metrics=0,
            acked_cmd=life.cmd_seq,
            ended_at=life.now,
        )
    )


def running() -> Life:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.wait_reason = "waits for another machine"
    return life


def test_what_runs_on_a_removed_machine_ends_there() -> None:
    life = running()
    assert life.take(f.MachineRemoved(keeper_id="local")) == [f.MachineRemoved(keeper_id="local")]
    life.end(0)
    assert life.state.status is f.ExperimentStatus.DONE


def test_what_is_removed_by_force_goes_on_elsewhere() -> None:
    life = running()
    ordered = life.take(f.MachineRemoved(keeper_id="local", force=True))
    assert [type(fact) for fact in ordered] == [f.MachineRemoved, f.StopOrdered]
    why = "is being stopped, and runs again elsewhere: its machine was removed by force"
    assert life.state.trials[life.trial(0)].reason == why
    due = next(fact for fact in stopped(life, 0) if isinstance(fact, f.AttemptDue))
    assert (due.attempt, due.lost, due.reason) == (2, False, "its machine was removed by force")
    trial = life.state.trials[life.trial(0)]
    assert (trial.status, trial.reason, trial.lost_attempts) == (S.WAITING, "waits for another machine", 0)


def test_nobody_waits_for_a_machine_that_does_not_speak() -> None:
    life = running()
    life.take(f.MachineRemoved(keeper_id="local", force=True))
    facts = life.take(f.KeeperSilent(keeper_id="local", reason="no word for 30 s"))
    lost = next(fact for fact in facts if isinstance(fact, f.JobLost))
    assert lost.reason == "its machine was removed by force: no word for 30 s"
    assert life.state.trials[life.trial(0)].attempt == 2
    assert life.job(0) in life.state.jobs  # the stop is not acknowledged
    life.take(f.MachineGone(keeper_id="local"))
    assert life.job(0) not in life.state.jobs


def test_a_machine_that_was_added_again_while_it_was_removed_owes_nothing() -> None:
    life = running()
    life.take(f.MachineRemoved(keeper_id="local", force=True))
    life.take(f.KeeperSilent(keeper_id="local", reason="no word for 30 s"))
    life.take(f.MachineAdded(keeper_id="local"))
    assert life.job(0) in life.state.jobs  # the former keeper has not acknowledged the stop
    life.take(f.MachineGone(keeper_id="local", returns=True))
    assert life.job(0) not in life.state.jobs
    assert life.state.machines["local"] == MachineState()
    assert life.state.keepers["local"].silent is None


def test_a_machine_that_is_gone_is_remembered_until_it_comes_back() -> None:
    life = Life()
    assert not life.take(f.MachineGone(keeper_id="local"))
    life.take(f.MachineAdded(keeper_id="b", machine={"host": "b"}))
    life.take(f.MachineDrained(keeper_id="b"))
    life.take(f.MachineRemoved(keeper_id="local"), after=timedelta(seconds=1))
    assert life.take(f.MachineGone(keeper_id="local"))
    assert not life.take(f.MachineGone(keeper_id="local"))
    expected = {
        "b": MachineState(added={"host": "b"}, draining=True),
        "local": MachineState(draining=True, removing=True, gone=True),
    }
    assert life.state.machines == expected
    assert decode(ExperimentState, encode(life.state)).machines == expected
    life.take(f.MachineAdded(keeper_id="local"), f.MachineAdded(keeper_id="b"))
    assert life.state.machines == {"b": MachineState(added={"host": "b"}), "local": MachineState()}
