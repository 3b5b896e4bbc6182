"""Tests that every assessor should pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nnimgr.testing.hosting import HostedAssessor
from nnimgr.testing.record import Record

__all__ = ["AssessorConformance"]

_STEPS = 12


class AssessorConformance:
    """Base class for the tests of an assessor. Override ``make`` to return the assessor.

    An assessor passes if it raises no exception and answers each question with Good or Bad. If it has
    ``recall`` or is ``replayable``, it must give the same answers after a restart of its process.
    """

    builtin: ClassVar[bool] = False  # True only for built-in assessors, whose results are always numbers
    trials: ClassVar[int] = 10  # number of trials per test

    def make(self) -> Any:
        """Return a new assessor with the arguments to test. This method is called several times."""
        raise NotImplementedError("override make() to return the assessor under test")

    def test_it_judges_trials_one_after_the_other(self, assessor: HostedAssessor) -> None:
        for number in range(self.trials):
            trial = assessor.begin()
            _report(assessor, trial, range(_STEPS), slope=number)
            assessor.end(trial)

    def test_it_judges_trials_beside_each_other(self, assessor: HostedAssessor) -> None:
        """Judge several trials that run at the same time. Some end early, and one reports no result."""
        trials = {assessor.begin(): number for number in range(self.trials)}
        for step in range(_STEPS):
            for trial, number in list(trials.items()):
                if number == 0:
                    continue
                assessor.report(trial, _value(step, slope=number))
                if step == number:
                    assessor.end(trial, success=number % 3 > 0)
                    del trials[trial]
        for trial in trials:
            assessor.end(trial)

    def test_results_come_in_every_form(self, assessor: HostedAssessor) -> None:
        """Judge results that are mappings, integers, or numbers that are not finite."""
        for number in range(self.trials):
            trial = assessor.begin()
            for step in range(_STEPS):
                value: Any = _value(step, slope=number)
                if step % 4 == number % 4:
                    value = {"default": value, "loss": 1.5, "note": "x"}
                elif step == 5:
                    value = [math.nan, math.inf, -math.inf, 3][number % 4]
                assessor.report(trial, value)
            assessor.end(trial)

    def test_a_trial_reports_much_at_once(self, assessor: HostedAssessor) -> None:
        """Judge a trial only once, after it has reported all of its results."""
        for number in range(self.trials):
            trial = assessor.begin()
            assessor.report(trial, *(_value(step, slope=number) for step in range(10 * _STEPS)))
            assessor.end(trial)

    def test_trials_fail(self, assessor: HostedAssessor) -> None:
        """Let all trials fail, including some that never reported a result."""
        for number in range(self.trials):
            trial = assessor.begin()
            if number % 2:
                _report(assessor, trial, range(number), slope=number)
            assessor.end(trial, success=False)

    def test_a_trial_that_it_called_bad_runs_on_for_a_while(self, assessor: HostedAssessor) -> None:
        for number in range(self.trials):
            trial = assessor.begin()
            _report(assessor, trial, range(_STEPS), slope=-number)
            _report(assessor, trial, range(_STEPS, 2 * _STEPS), slope=-number)
            assessor.end(trial, success=number % 2 == 0)

    def test_it_may_leave_at_any_time(self, assessor: HostedAssessor) -> None:
        _report(assessor, assessor.begin(), range(3), slope=1)
        assessor.leave()

    def test_rebuilt_it_says_the_same(self, assessor: HostedAssessor) -> None:
        """Restart the assessor. It must judge running and later trials as it would without the restart."""
        made = self.make()
        if not callable(getattr(made, "recall", None)) and not getattr(made, "replayable", False):
            pytest.skip("the assessor has no recall and is not replayable")
        for number in range(self.trials):
            trial = assessor.begin()
            slope = (number * 7) % 5 - 2
            others = [assessor.restarted()]
            for step in range(_STEPS):
                if step == _STEPS // 2:
                    others.append(assessor.restarted())
                value = _value(step, slope=slope)
                said = [other.report(trial, value, recorded=False) for other in others]
                good = assessor.report(trial, value)
                assert said == [good] * len(said), f"a restarted assessor judges {trial} differently"
                if not good:
                    break
            assessor.end(trial, success=number % 4 != 3)

    def test_rebuilt_it_continues(self, assessor: HostedAssessor) -> None:
        ended, running = assessor.begin(), assessor.begin()
        _report(assessor, ended, range(_STEPS), slope=1)
        assessor.end(ended)
        _report(assessor, running, range(3), slope=2)
        again = assessor.restarted()
        _report(again, running, range(3, _STEPS), slope=2)
        again.end(running)

    @pytest.fixture
    def assessor(self, tmp_path: Path) -> Iterator[HostedAssessor]:
        record = Record(tmp_path / "record.sqlite", {})
        yield HostedAssessor(self.make, record, builtin=self.builtin)
        record.close()


def _value(step: int, *, slope: float) -> float:
    """Return one point of a rising curve with an upper limit, like an accuracy during training.

    A higher slope gives a higher limit.
    """
    return (1 + slope / 10) * (1 - math.exp(-(step + 1) / 4))


def _report(assessor: HostedAssessor, trial: str, steps: range, *, slope: float) -> None:
    for step in steps:
        if not assessor.report(trial, _value(step, slope=slope)):
            return
