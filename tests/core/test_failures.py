"""Failed trials: further attempts, the results that the tuner gets, and running the trials again."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from nnimgr import codec
from nnimgr.core.running import new_trials
from nnimgr.core.running.new_trials import FailedTrial
from nnimgr.core.running.requests import RequestRefused
from nnimgr.rules import facts as f
from nnimgr.rules.state import ExperimentState
from nnimgr.rules.trial_ends import LONGEST_RETRY_DELAY, RETRY_DELAY
from tests.rules.driver import Life, refold

S = f.TrialStatus
E = f.ExperimentStatus
MINUTE = timedelta(minutes=1)


def ended(life: Life, sequence: int) -> f.TrialEnded:
    found = [r.fact for r in life.log if isinstance(r.fact, f.TrialEnded)]
    return next(fact for fact in found if fact.trial_id == life.trial(sequence))


def succeed(life: Life, sequence: int, value: float) -> None:
    life.start(sequence)
    life.metric(sequence, 0, value, "FINAL")
    life.end(sequence)


# ---- further attempts -------------------------------------------------------------------------------------


def test_a_failed_command_is_tried_again_as_often_as_wanted() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1, max_failed_attempts=2)
    life.start(0)
    life.metric(0, 0, 0.5)
    life.metric(0, 1, 0.9, "FINAL")
    facts = life.end(0, 3)
    (due,) = (fact for fact in facts if isinstance(fact, f.AttemptDue))
    assert (due.attempt, due.failed, due.lost, due.reason) == (2, True, False, "exited with code 3")
    trial = life.state.trials[life.trial(0)]
    assert (trial.status, trial.intermediates, trial.final_text) == (S.WAITING, 0, None)
    life.start(0, 2)
    life.end(0, None, attempt=2, signal=11)
    assert life.wake_at == life.now + RETRY_DELAY
    life.take(after=RETRY_DELAY)
    life.start(0, 3)
    life.end(0, 4, attempt=3)
    assert ended(life, 0).reason == "exited with code 4; it has failed 3 times"
    assert life.state.status is E.DONE and life.state.best is None


def test_the_causes_are_counted_apart() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1, max_failed_attempts=1, max_lost_attempts=1)
    life.start(0)
    life.end(0, 1)
    life.take(f.JobLost(job_id=life.job(0, 2), reason="gone"))
    life.start(0, 3)
    life.metric_of(0, 3, 0.7)
    life.end(0, attempt=3)
    assert ended(life, 0).status is S.SUCCEEDED
    assert life.state.best is not None and life.state.best.value == 0.7


def test_without_a_wish_for_it_nothing_is_tried_again() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1, max_lost_attempts=0)
    life.take(f.JobLost(job_id=life.job(0), reason="the host was rebooted"))
    assert ended(life, 0).reason == "it was lost once: the host was rebooted"


def test_what_was_to_end_is_not_tried_again() -> None:
    life = Life(trial_concurrency=1, max_failed_attempts=5, max_experiment_duration=MINUTE)
    life.start(0)
    life.take(f.StopRequested(trial_id=life.trial(0)))
    life.end(0, 1)
    assert ended(life, 0).status is S.FAILED
    life.start(1)
    life.take(after=MINUTE)
    life.end(1, 1)
    assert ended(life, 1).status is S.FAILED


def test_pauses_have_an_end() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1, max_failed_attempts=100)
    for attempt in range(1, 100):
        life.start(0, attempt)
        life.end(0, 1, attempt=attempt)
        if attempt > 1:
            assert life.wake_at is not None
            life.take(after=life.wake_at - life.now)
    assert life.state.trials[life.trial(0)].failed_attempts == 99
    life.start(0, 100)
    life.end(0, 1, attempt=100)
    assert life.wake_at == life.now + LONGEST_RETRY_DELAY


# ---- what the tuner gets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "worst"), [("maximize", "-2.5"), ("minimize", "7.0")])
def test_a_penalty_is_the_worst_result_so_far(mode: str, worst: str) -> None:
    life = Life(trial_concurrency=1, on_failure=f.OnFailure.PENALTY)
    life.state.traits = f.TunerTraits(minimises=mode == "minimize")
    life.start(0)
    life.end(0, 1)
    first = ended(life, 0)
    assert first.stand_in is None
    assert first.reason == (
        "exited with code 1; "
        "the tuner gets no penalty (the worst result so far), since there is no result yet"
    )
    for sequence, value in ((1, 3.0), (2, -2.5), (3, 7.0)):
        succeed(life, sequence, value)
    life.start(4)
    life.end(4, 1)
    assert ended(life, 4).stand_in == worst
    assert ended(life, 4).reason == f"exited with code 1; the tuner gets the result {worst} instead"
    assert ended(life, 3).stand_in is None
    again = codec.decode(ExperimentState, codec.loads(codec.dumps(codec.encode(life.state))))
    assert again.worst == life.state.worst == float(worst)


BOTH = {"accuracy": "maximize", "latency": "minimize"}


def report(life: Life, sequence: int, result: object, kind: str = "FINAL", position: int = 0) -> None:
    """Report a metric as a keeper does, which knows nothing about objectives."""
    text = json.dumps(result)
    number = result if isinstance(result, float) else None
    life.take(f.MetricReported(life.job(sequence), position, kind, position, "0", number, text))


def test_the_penalty_of_several_objectives_is_the_worst_of_each() -> None:
    life = Life(trial_concurrency=1, on_failure=f.OnFailure.PENALTY)
    life.state.config["objectives"] = BOTH
    for sequence, (accuracy, latency) in enumerate([(0.5, 3), (0.75, 9.5), (0.25, 4)]):
        life.start(sequence)
        report(life, sequence, {"accuracy": accuracy, "latency": latency})
        life.end(sequence)
    life.start(3)
    report(life, 3, {"accuracy": 1.0, "latency": float("nan")})
    life.end(3)
    assert ended(life, 3).reason == (
        'no usable result: {"accuracy": 1.0, "latency": NaN} has as "latency" nan, which is not finite'
    )
    life.start(4)
    life.end(4, 1)
    for sequence in (3, 4):
        assert ended(life, sequence).stand_in == '{"accuracy": 0.25, "latency": 9.5}'
    best = life.state.best
    assert best is not None and (best.sequence, best.value) == (1, 0.75)
    again = codec.decode(ExperimentState, codec.loads(codec.dumps(codec.encode(life.state))))
    assert again.worst_of == {"accuracy": 0.25, "latency": 9.5}


@pytest.mark.parametrize(
    ("value", "told"),
    [(-1.0, '{"accuracy": -1.0, "latency": -1.0}'), ({"latency": 5, "accuracy": 0}, None)],
)
def test_a_given_value_for_several_objectives(value: float | dict[str, float], told: str | None) -> None:
    life = Life(trial_concurrency=1, on_failure=f.OnFailure.VALUE, failure_value=value)
    life.state.config["objectives"] = BOTH
    life.start(0)
    life.end(0, 1)
    assert ended(life, 0).stand_in == (told or json.dumps(value))


def test_the_main_objective_is_the_number_of_a_metric() -> None:
    life = Life(trial_concurrency=1)
    life.state.config["objectives"] = {"loss": "minimize", "size": "minimize"}
    life.start(0)
    trial = life.state.trials[life.trial(0)]
    latest = []
    for position, result in enumerate([0.5, {"loss": 2, "default": 1}, {"size": 3}, {"loss": "low"}]):
        report(life, 0, result, "PERIODICAL", position)
        latest.append(trial.latest_value)
    assert latest == [0.5, 2.0, None, None]
    report(life, 0, {"loss": 4, "size": 5, "default": 6}, position=4)
    life.end(0)
    metrics = [each.fact for each in life.log if isinstance(each.fact, f.MetricReported)]
    assert metrics[-1].value == 4.0
    life.start(1)
    report(life, 1, {"loss": 3.0, "size": 1})
    life.end(1)
    assert life.state.best is not None and life.state.best.sequence == 1
    assert life.state.minimises


def test_one_objective_may_come_as_a_number() -> None:
    life = Life(trial_concurrency=1)
    life.state.config["objectives"] = {"loss": "minimize"}
    for sequence, result in enumerate([0.5, {"loss": 0.25}, {"default": 0.1}, {"losss": 0.1}]):
        life.start(sequence)
        report(life, sequence, result)
        life.end(sequence)
    assert life.state.best is not None and life.state.best.value == 0.25
    reason = 'no usable result: {"default": 0.1} is a mapping without "loss" (it has "default")'
    assert ended(life, 2).reason == reason
    reason = 'no usable result: {"losss": 0.1} is a mapping without "loss" (did you mean "losss"?)'
    assert ended(life, 3).reason == reason


def test_a_given_value_is_for_failures_only() -> None:
    life = Life(trial_concurrency=1, on_failure=f.OnFailure.VALUE, failure_value=-1.0)
    life.start(0)
    life.end(0, 1)
    assert ended(life, 0).stand_in == "-1.0"
    life.start(1)
    life.take(f.MetricReported(life.job(1), 0, "FINAL", 0, "1", None, "NaN"))
    life.end(1)
    assert (ended(life, 1).status, ended(life, 1).stand_in) == (S.SUCCEEDED, "-1.0")
    life.start(2)
    life.end(2)  # the trial has no result, but has not failed
    life.start(3)
    life.take(f.StopRequested(trial_id=life.trial(3)))
    life.end(3, None, reason=f.EndReason.STOPPED, signal=15)
    assert ended(life, 2).stand_in is ended(life, 3).stand_in is None
    for attempt in range(1, 5):
        life.take(f.JobLost(job_id=life.job(4, attempt), reason="gone"), after=MINUTE)
        life.take(after=MINUTE)
    assert ended(life, 4).stand_in == "-1.0"


# ---- running again ----------------------------------------------------------------------------------------


def failed(life: Life, *sequences: int) -> list[FailedTrial]:
    suggested = {r.fact.sequence: r.fact for r in life.log if isinstance(r.fact, f.Suggested)}
    return [
        FailedTrial(
            id=suggested[each].trial_id,
            parameter_id=suggested[each].parameter_id,
            parameters=suggested[each].parameters,
        )
        for each in sequences
    ]


def rerun(life: Life, *sequences: int) -> list[f.Suggested]:
    facts = life.take(*new_trials.rerun(failed(life, *sequences))(life.state))
    return [fact for fact in facts if isinstance(fact, f.Suggested)]


def test_a_trial_run_again_takes_the_place_of_the_failed_one() -> None:
    life = Life(trial_concurrency=2, max_trial_number=3)
    for sequence in range(3):
        life.start(sequence)
        life.end(sequence, 1)
    assert life.state.status is E.DONE
    again = rerun(life, 0, 2)
    assert [(fact.sequence, fact.retry_of, fact.parameter_id) for fact in again] == [
        (3, life.trial(0), 0),
        (4, life.trial(2), 2),
    ]
    assert life.state.status is E.DRAINING and life.state.counted == 3
    succeed(life, 3, 0.5)
    succeed(life, 4, 0.6)
    assert life.state.status is E.DONE
    assert life.state.reason == "3 of 3 trials (not counted: 2 retried)"
    assert (life.state.next_sequence, life.state.next_parameter_id) == (5, 3)
    assert life.state.best is not None and life.state.best.value == 0.6
    assert refold(life.log) == life.state


def test_trials_run_again_survive_a_stop() -> None:
    life = Life(trial_concurrency=1, max_trial_number=1)
    life.start(0)
    life.end(0, 1)
    rerun(life, 0)
    life.start(1)
    life.take(f.ExperimentStopRequested())
    life.end(1, None, reason=f.EndReason.STOPPED, signal=15)
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    succeed(life, 2, 0.5)
    assert life.state.status is E.DONE and life.state.next_sequence == 3


@pytest.mark.parametrize("status", [E.STOPPED, E.ERROR])
def test_nothing_is_run_again_in_a_closed_experiment(status: f.ExperimentStatus) -> None:
    state: Any = ExperimentState(id="exp", status=status)
    with pytest.raises(RequestRefused, match="resume it first"):
        new_trials.rerun([])(state)
