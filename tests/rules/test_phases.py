"""Multi-phase trials: a running trial gets further parameter sets, each with its own result."""

from __future__ import annotations

import json

import pytest

from nnimgr import codec
from nnimgr.rules import facts as f
from nnimgr.rules.indexes import rebuild
from nnimgr.rules.state import ExperimentState
from tests.rules.driver import Life, refold

S = f.TrialStatus


@pytest.fixture
def life() -> Life:
    made = Life(trial_concurrency=1, max_trial_number=1, multi_phase=True)
    made.start(0)
    return made


def results(facts: list[f.Fact]) -> list[tuple[int, int | None, str, str]]:
    return [
        (fact.index, fact.parameter_id, fact.parameters, fact.text)
        for fact in facts
        if isinstance(fact, f.ResultTaken)
    ]


def test_a_trial_gets_further_sets_and_each_has_its_result(life: Life) -> None:
    trial = life.state.trials[life.trial(0)]
    assert results(life.final(0, 0.5, 0)) == [(0, 0, '{"x": 1}', "0.5")]
    life.want(0, 1)
    assert life.further == [(trial.id, 1)]
    assert (trial.status, trial.reason) == (S.RUNNING, "waits for parameter set 2 from the tuner")
    facts = life.further_set(0, 1)
    # Both facts are in one turn and thus in one transaction: the set, and the order to hand it over.
    assert [type(fact) for fact in facts] == [f.FurtherSuggested, f.UpdateOrdered]
    assert trial.reason is None and trial.parameter_sets == 2
    assert json.loads(life.records[0]) == {
        "parameter_id": 1,
        "parameter_source": "algorithm",
        "parameters": {"x": 2},
        "parameter_index": 1,
    }
    assert results(life.final(0, 0.9, 1)) == [(1, 1, '{"x": 2}', "0.9")]
    assert results(life.final(0, 0.7, 1)) == []  # only the first result of a set counts
    life.want(0, 2)
    life.further_set(0, 2)
    facts = life.end(0)
    assert life.ended()[trial.id][0] is S.SUCCEEDED
    assert life.state.best is not None and life.state.best.value == 0.9
    assert life.state.next_parameter_id == 3
    assert refold(life.log) == life.state


def test_a_result_is_taken_before_its_trial_ends(life: Life) -> None:
    job_id = life.job(0)
    facts = life.take(
        f.MetricReported(job_id, 0, "FINAL", 0, "0", 0.5, "0.5"),
        f.JobEnded(
            job_id=job_id, reason=f.EndReason.EXITED, exit_code=0, signal=None,
            metrics=1, acked_cmd=9, ended_at=life.now,
        ),
    )  # fmt: skip
    kinds = [type(fact) for fact in facts]
    assert kinds.index(f.ResultTaken) < kinds.index(f.TrialEnded)


def test_what_was_asked_for_survives_a_snapshot(life: Life) -> None:
    life.final(0, 0.5, 0)
    life.want(0, 1)
    state = codec.decode(ExperimentState, codec.loads(codec.dumps(codec.encode(life.state))))
    rebuild(state)
    assert state == life.state and list(state.wanting) == [life.trial(0)]
    life.state = state
    life.further_set(0, 1)
    (order, record) = life.state.jobs[life.job(0)].updates[0]
    assert order.index == 1 and record == life.records[0]


def test_a_new_attempt_gets_the_same_sets_and_their_results_are_told_once(life: Life) -> None:
    life.final(0, 0.5, 0)
    life.want(0, 1)
    life.further_set(0, 1)
    life.want(0, 2)
    life.take(f.JobLost(job_id=life.job(0), reason="the host was rebooted"))
    trial = life.state.trials[life.trial(0)]
    assert (trial.parameter_sets, trial.final_text, list(life.state.wanting)) == (1, None, [])
    life.start(0, 2)
    assert results(life.final(0, 0.6, 0, attempt=2)) == []
    assert trial.final_value == 0.6
    asked = len(life.further)
    life.want(0, 1, attempt=2)
    assert life.records[1] == life.records[0] and len(life.further) == asked
    assert results(life.final(0, 0.9, 1, attempt=2)) == [(1, 1, '{"x": 2}', "0.9")]


def test_a_tuner_that_has_no_more_is_told_to_the_trial(life: Life) -> None:
    life.want(0, 1)
    life.further_set(0, 1, None)
    assert json.loads(life.records[0])["parameters"] is None
    trial = life.state.trials[life.trial(0)]
    assert trial.note == "the trial asked for parameter set 2, but the tuner has no more: the trial gets None"
    life.want(0, 2)
    assert life.further[-1] == (trial.id, 2)


def test_asking_twice_is_asking_once(life: Life) -> None:
    life.want(0, 1)
    life.want(0, 1)
    assert len(life.state.trials[life.trial(0)].wants) == 1
    life.further_set(0, 1)
    life.want(0, 1)
    assert len(life.records) == 1 and not life.state.wanting


def test_the_first_set_is_written_again_if_it_is_gone(life: Life) -> None:
    life.want(0, 0)
    assert json.loads(life.records[0])["parameter_index"] == 0 and not life.further


def test_a_set_out_of_turn_is_not_given_and_the_trial_says_so(life: Life) -> None:
    life.want(0, 7)
    trial = life.state.trials[life.trial(0)]
    assert trial.note == "the trial asked for parameter set 8, but set 2 is the next one" and not trial.wants


def test_a_result_for_a_set_that_was_never_given_is_noted(life: Life) -> None:
    assert results(life.final(0, 0.5, 7)) == []
    trial = life.state.trials[life.trial(0)]
    assert trial.note == "the trial reported a final result for parameter id 7, which it was not given"
    assert trial.final_text is None


def test_a_second_final_result_of_a_set_is_noted(life: Life) -> None:
    life.final(0, 0.5, 0)
    life.final(0, 0.7, 0)
    trial = life.state.trials[life.trial(0)]
    assert trial.note == (
        "the trial reported another final result for parameter set 1, 0.7: the tuner gets the first one"
    )
    assert (trial.sets[0].result, trial.final_text) == ("0.5", "0.7")


def test_a_stopped_trial_gets_nothing_more(life: Life) -> None:
    life.want(0, 1)
    life.take(f.StopRequested(trial_id=life.trial(0)))
    life.further_set(0, 1)
    assert not life.records
    life.end(0, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.ended()[life.trial(0)][0] is S.USER_CANCELED and not life.state.wanting


def test_an_order_that_came_too_late_is_awaited_before_the_job_is_forgotten(life: Life) -> None:
    life.want(0, 1)
    life.further_set(0, 1)
    life.end(0, acked=1)
    assert life.job(0) in life.state.jobs
    life.take(f.KeeperAcknowledged(keeper_id="local", acked_cmd=life.cmd_seq))
    assert not life.state.jobs and life.state.status is f.ExperimentStatus.DONE


def test_one_set_per_trial_is_the_rule_and_the_trial_says_so() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.want(0, 1)
    assert json.loads(life.records[0]) == {
        "parameter_id": None,
        "parameter_source": "algorithm",
        "parameters": None,
        "parameter_index": 1,
    }
    trial = life.state.trials[life.trial(0)]
    assert trial.note == (
        "the trial asked for parameter set 2, but each trial gets only one (multiPhase is not set): "
        "the trial gets None"
    )
    assert not life.further and trial.reason is None
