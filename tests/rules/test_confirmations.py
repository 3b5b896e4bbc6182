"""Tests of ``confirmBest``: the best trials are run again with other seeds when the search has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from nnimgr import codec
from nnimgr.rules import facts as f
from nnimgr.rules.activity import happening
from nnimgr.rules.indexes import rebuild
from nnimgr.rules.state import ExperimentState
from tests.rules.driver import Life, refold

E, S = f.ExperimentStatus, f.TrialStatus
CONFIRMATION = f.SuggestionSource.CONFIRMATION


class Search(Life):
    """A life whose trials have different parameters."""

    def suggestion(self, offset: int = 0) -> f.Suggested:
        suggested = super().suggestion(offset)
        return replace(suggested, parameters=f'{{"x": {suggested.sequence}}}')


def searching(*, trials: int | None = 3, top: int = 2, runs: int = 2, **limits: Any) -> Search:
    limits.setdefault("trial_concurrency", 1)
    rule = f.ConfirmBest(top=top, runs=runs)
    return Search(max_trial_number=trials, confirm_best=rule, **limits)


def succeed(life: Life, sequence: int, value: float, attempt: int = 1) -> None:
    if life.state.trials[life.trial(sequence)].status is not S.RUNNING:
        life.start(sequence, attempt)
    life.take(f.MetricReported(life.job(sequence, attempt), 0, "FINAL", 0, "0", value, repr(value)))
    life.end(sequence, attempt=attempt)


def created(life: Life) -> list[tuple[int, str, int | None]]:
    """Return the number of each confirmed trial, the parameters and the seed, in order."""
    number_of = {life.trial(sequence): sequence for sequence in range(life.state.next_sequence)}
    return [
        (number_of[r.fact.retry_of or ""], r.fact.parameters, r.fact.seed)
        for r in life.log
        if isinstance(r.fact, f.Suggested) and r.fact.source is CONFIRMATION
    ]


def in_direction(life: Life, mode: str) -> None:
    traits = f.TunerTraits(minimises=mode == "minimize")
    life.take(f.ConfigChanged(changes={}, limits=life.state.limits, traits=traits))


def searched(*values: float, **options: Any) -> Search:
    """Return an experiment whose search has ended with these results."""
    life = searching(trials=len(values), **options)
    for sequence, value in enumerate(values):
        succeed(life, sequence, value)
    return life


def test_the_best_trials_run_again_with_other_seeds() -> None:
    life = searched(0.3, 0.9, 0.5)
    assert life.state.status is E.DRAINING and life.state.drain is f.DrainReason.BUDGET
    assert created(life) == [(1, '{"x": 1}', 1), (2, '{"x": 2}', 1), (1, '{"x": 1}', 2), (2, '{"x": 2}', 2)]
    assert life.state.counted == 3  # confirmations do not count towards maxTrialNumber
    for sequence, value in zip(range(3, 7), (0.95, 0.6, 0.7, 0.6), strict=True):
        assert life.state.status is E.DRAINING
        succeed(life, sequence, value)
    assert life.state.status is E.DONE
    assert life.state.reason == "3 of 3 trials; 4 runs repeated the best 2 trials"
    assert life.state.best is not None and life.state.best.value == 0.9  # the result of the search stays
    assert len(created(life)) == 4
    assert refold(life.log) == life.state


def test_the_smallest_results_are_the_best_with_this_goal() -> None:
    life = searching(top=1, runs=1)
    in_direction(life, "minimize")
    for sequence, value in enumerate((0.3, 0.9, 0.5)):
        succeed(life, sequence, value)
    assert [number for number, _, _ in created(life)] == [0]


def test_equal_parameters_are_confirmed_once() -> None:
    life = Life(trial_concurrency=1, max_trial_number=3, confirm_best=f.ConfirmBest(top=2, runs=1))
    for sequence, value in enumerate((0.3, 0.9, 0.5)):  # all have the same parameters
        succeed(life, sequence, value)
    assert [number for number, _, _ in created(life)] == [1]


def test_only_trials_with_a_usable_result_are_confirmed() -> None:
    life = searching(trials=2)
    life.start(0)
    life.end(0, 1)
    life.start(1)
    life.end(1)
    assert life.state.status is E.DONE and created(life) == []
    assert life.state.reason.endswith(
        "; no trial could be confirmed, because none has a result that a new run could repeat"
    )


def test_failed_runs_are_not_repeated_and_tell_the_tuner_nothing() -> None:
    life = searched(0.3, top=1, on_failure=f.OnFailure.PENALTY)
    life.start(1)
    facts = life.end(1, 1)
    ended = next(fact for fact in facts if isinstance(fact, f.TrialEnded))
    assert ended.status is S.FAILED and ended.stand_in is None
    assert ended.reason == "exited with code 1; the run does not count for the trial that it confirms"
    assert life.state.failures == 0 and life.state.first_failures is None
    succeed(life, 2, 0.2)
    assert life.state.status is E.DONE and len(created(life)) == 2


def test_a_failed_run_is_retried_as_any_trial() -> None:
    life = searched(0.3, top=1, runs=1, max_failed_attempts=1)
    life.start(1)
    life.end(1, 1)
    assert life.state.trials[life.trial(1)].attempt == 2
    succeed(life, 1, 0.2, attempt=2)
    assert life.state.status is E.DONE


def test_a_rule_of_stop_when_ends_the_search_but_not_the_confirmations() -> None:
    stop = f.StopWhen(metric=0.8, running_trials=f.RunningTrials.STOP)
    life = searching(trials=None, top=1, stop_when=stop)
    succeed(life, 0, 0.9)
    assert (life.state.status, life.state.drain) == (E.DRAINING, f.DrainReason.RULE)
    assert len(created(life)) == 2
    succeed(life, 1, 0.1)
    succeed(life, 2, 0.1)
    assert life.state.status is E.DONE
    assert life.state.reason.endswith("; 2 runs repeated the best trial")


def test_the_confirmations_wait_for_the_last_trial_of_the_search() -> None:
    life = searching(trials=2, top=1, runs=1, trial_concurrency=2)
    life.start(1)
    succeed(life, 0, 0.5)
    assert created(life) == []
    succeed(life, 1, 0.6)
    assert [number for number, _, _ in created(life)] == [1]


def test_the_end_of_the_tuner_ends_the_search_too() -> None:
    life = searching(trials=None, top=1, runs=1)
    life.tuner = False
    life.take(f.TunerExhausted())
    succeed(life, 0, 0.5)
    assert (life.state.status, life.state.drain) == (E.DRAINING, f.DrainReason.TUNER)
    assert created(life) == []  # the tuner is asked again after the last result
    life.take(f.TunerExhausted())
    assert len(created(life)) == 1


def test_a_stop_by_a_user_makes_no_confirmations_and_the_resume_makes_those_that_lack() -> None:
    life = searched(0.3, 0.9, top=1, runs=3)
    succeed(life, 2, 0.8)
    life.start(3)
    life.take(f.ExperimentStopRequested())
    life.end(3, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.state.status is E.STOPPED and not life.state.interrupted
    assert {status for status, _ in life.ended().values()} == {S.SUCCEEDED, S.SYS_CANCELED}
    life.take(f.ExperimentOpened(m_epoch=2, resumed=True))
    assert [seed for _, _, seed in created(life)] == [1, 2, 3, 2, 3]
    assert life.state.counted == 2
    succeed(life, 5, 0.8)
    succeed(life, 6, 0.8)
    assert life.state.status is E.DONE
    assert life.state.reason == (
        "2 of 2 trials (not counted: 2 SYS_CANCELED); 3 runs repeated the best trial"
    )
    assert refold(life.log) == life.state


def test_a_stop_during_the_search_makes_no_confirmations() -> None:
    life = searching(top=1)
    succeed(life, 0, 0.9)
    life.take(f.ExperimentStopRequested())
    life.end(1, None, reason=f.EndReason.STOPPED, signal=15)
    assert life.state.status is E.STOPPED and created(life) == []


def test_no_confirmation_starts_after_the_time_limit() -> None:
    life = searching(trials=None, top=1, max_experiment_duration=timedelta(seconds=10))
    life.start(0)
    life.take(after=timedelta(seconds=11))
    succeed(life, 0, 0.9)
    assert life.state.status is E.DONE and created(life) == []
    assert life.state.reason == (
        "exceeded maxExperimentDuration (10 s); no trial was confirmed, and 2 runs did not start"
    )


def test_the_time_limit_cancels_confirmations_that_wait() -> None:
    life = searched(0.9, top=1, runs=2, max_experiment_duration=timedelta(seconds=10))
    life.start(1)
    life.take(after=timedelta(seconds=11))
    succeed(life, 1, 0.7)
    assert life.state.status is E.DONE
    assert life.state.reason == (
        "exceeded maxExperimentDuration (10 s); 1 run repeated the best trial, and 1 run did not start"
    )
    limits = replace(life.state.limits, max_experiment_duration=timedelta(seconds=60))
    life.take(f.ConfigChanged(changes={}, limits=limits))
    assert [seed for _, _, seed in created(life)] == [1, 2, 2]


def test_more_trials_lead_to_confirmations_of_the_new_best_trials_only() -> None:
    life = searched(0.5, 0.4, top=1, runs=1)
    succeed(life, 2, 0.5)
    assert life.state.status is E.DONE
    life.take(f.ConfigChanged(changes={}, limits=replace(life.state.limits, max_trial_number=4)))
    assert life.state.status is E.RUNNING
    succeed(life, 3, 0.3)
    succeed(life, 4, 0.9)
    assert [number for number, _, _ in created(life)] == [0, 4]
    succeed(life, 5, 0.9)
    assert life.state.reason == "4 of 4 trials; 2 runs repeated the best 2 trials"


def test_trials_that_depend_on_other_trials_are_not_confirmed() -> None:
    life = searching(trials=3, top=2, runs=1)
    succeed(life, 0, 0.1)
    life.state.trials[life.trial(1)].leg = 1
    succeed(life, 1, 0.9)
    life.state.trials[life.trial(2)].forked = True
    succeed(life, 2, 0.8)
    assert [number for number, _, _ in created(life)] == [0]
    succeed(life, 3, 0.1)
    assert life.state.reason == (
        "3 of 3 trials; 1 run repeated the best trial (trial 1 is better, but it began with a checkpoint of "
        "another trial, so no run can repeat it)"
    )


def test_the_confirmations_are_counted_apart_and_shown() -> None:
    life = searched(0.3, 0.9, top=1, runs=2)
    life.start(2)
    sentence = happening(life.state, life.now, searching=True, outstanding=0, service_trouble=None)
    assert "2 of 2 finished" in sentence
    assert "2 runs that confirm the best trials have not ended" in sentence


def test_it_survives_a_snapshot() -> None:
    life = searched(0.3, 0.9)
    copy = codec.decode(ExperimentState, codec.loads(codec.dumps(codec.encode(life.state))))
    rebuild(copy)
    assert copy == life.state and copy.confirming == life.state.confirming
