"""Tests that every tuner should pass."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nnimgr.algorithm import NoMoreTrialError, Rules
from nnimgr.dispatcher.abilities import Way, way_of
from nnimgr.dispatcher.serialization import json_text
from nnimgr.identity import identity
from nnimgr.search_space import contains, parse
from nnimgr.testing.hosting import NO_RESULT, HostedTuner
from nnimgr.testing.record import Record

__all__ = ["TunerConformance"]

Space = Mapping[str, Any]

_FLAT: Space = {
    "choice": {"_type": "choice", "_value": ["a", 2, 0.5, None, ["b", 1]]},
    "randint": {"_type": "randint", "_value": [-2, 7]},
    "uniform": {"_type": "uniform", "_value": [-1, 1]},
    "quniform": {"_type": "quniform", "_value": [0, 1, 0.3]},
    "loguniform": {"_type": "loguniform", "_value": [0.001, 10]},
    "qloguniform": {"_type": "qloguniform", "_value": [1, 100, 5]},
    "normal": {"_type": "normal", "_value": [0, 2]},
    "qnormal": {"_type": "qnormal", "_value": [0, 2, 0.5]},
    "lognormal": {"_type": "lognormal", "_value": [0, 1]},
    "qlognormal": {"_type": "qlognormal", "_value": [0, 1, 0.5]},
}
_NESTED: Space = {
    "layer": {
        "_type": "choice",
        "_value": [
            {"_name": "none"},
            {"_name": "dense", "width": {"_type": "randint", "_value": [1, 9]}},
            {
                "_name": "deep",
                "inner": {
                    "_type": "choice",
                    "_value": [
                        {"_name": "x", "rate": {"_type": "uniform", "_value": [0, 1]}},
                        {"_name": "y"},
                    ],
                },
            },
        ],
    },
    "rate": {"_type": "uniform", "_value": [0, 1]},
}
_FINITE: Space = {
    "n": {"_type": "randint", "_value": [0, 3]},
    "c": {"_type": "choice", "_value": ["a", "b"]},
}
_RESULTS = (0.5, {"default": 1.5, "time": 3, "note": "x"}, 3, -2.5e6, {"default": 0}, 0.25)
_BY = {
    Way.RECALL: "by recall",
    Way.STATE: "by load_state",
    Way.REPLAY: "by the same calls, because the class is replayable",
}
_NO_INTERMEDIATES = "the tuner has no receive_intermediate_result"
_MOST = 60  # number of sets after which a search space counts as infinite


class _IntermediateResults:
    """Tests of a tuner that wants intermediate results. They are skipped for other tuners."""

    search_space: ClassVar[Space]
    trials: ClassVar[int]

    def test_trials_report_intermediate_results(self, lab: Lab) -> None:
        """Report intermediate results in every form, also of trials that a user has submitted."""
        tuner = lab.tuner(self.search_space)
        if not tuner.wants_metrics:
            pytest.skip(_NO_INTERMEDIATES)
        own = tuner.submit({"somewhere": "else"})
        for number in range(self.trials):
            tuner.ask()
            for trial in tuner.trials[-2:]:
                tuner.report(trial, _RESULTS[number % len(_RESULTS)], math.nan, {"default": 1}, 2)
            if len(tuner.trials) > 3:
                tuner.end(tuner.trials[1], [0.5, NO_RESULT][number % 2])
        tuner.report(own, *_RESULTS)
        run(tuner, 4)
        lab.given(tuner)

    def test_intermediate_results_are_made_again(self, lab: Lab) -> None:
        """Let trials continue from a checkpoint, or start again, and report their results again."""
        tuner = lab.tuner(self.search_space)
        if not tuner.wants_metrics:
            pytest.skip(_NO_INTERMEDIATES)
        for trial in tuner.ask(3):
            tuner.report(trial, 0.1, 0.2, 0.3)
            for kept in (2, 0):
                tuner.roll_back(trial, kept)
                tuner.report(trial, 0.25, {"default": 0.5})
        run(tuner, 4)
        lab.given(tuner)


class TunerConformance(_IntermediateResults):
    """Base class for the tests of a tuner. Override ``make`` to return the tuner.

    Override the search spaces too if the tuner cannot search all types of parameters. A tuner passes if it
    raises no exception, suggests sets of the latest search space, and answers every request.

    A tuner with ``recall``, with ``dump_state`` and ``load_state``, or with ``replayable`` must suggest the
    same sets after a restart. For this, its random numbers must come from a fixed seed.
    """

    search_space: ClassVar[Space] = _FLAT
    # The second search space in tests that change the space. None: a part of the first search space.
    other_space: ClassVar[Space | None] = None
    nested_space: ClassVar[Space | None] = _NESTED  # None: the tuner does not accept nested spaces
    finite_space: ClassVar[Space | None] = _FINITE  # None: the tuner accepts no finite space
    exact: ClassVar[bool] = True  # True: its sets are inside the space as NNI defines it
    adds: ClassVar[tuple[str, ...]] = ()  # parameters that the tuner adds to those of the space
    takes_over: ClassVar[bool] = True  # True: the tuner can replace another tuner
    builtin: ClassVar[bool] = False  # True only for built-in tuners, whose results are always numbers
    trials: ClassVar[int] = 14  # number of trials per test

    def make(self) -> Any:
        """Return a new tuner with the arguments to test. This method is called several times."""
        raise NotImplementedError("override make() to return the tuner under test")

    # Tests of the parameter sets that the tuner suggests

    def test_it_gives_sets_of_the_space(self, lab: Lab) -> None:
        """Request parameter sets. They must be valid as JSON, even if they contain numbers of numpy."""
        tuner = lab.tuner(self.search_space)
        run(tuner, self.trials)
        assert lab.given(tuner), "the tuner has given nothing"

    def test_it_gives_sets_of_nested_spaces(self, lab: Lab) -> None:
        if self.nested_space is None:
            pytest.skip("the tuner refuses nested spaces")
        tuner = lab.tuner(self.nested_space)
        run(tuner, self.trials)
        assert lab.given(tuner), "the tuner has given nothing"

    def test_it_goes_over_to_another_space(self, lab: Lab) -> None:
        """Change the search space while trials of the first space run. They end after the change."""
        tuner = lab.tuner(self.search_space)
        run(tuner, 5)
        lab.given(tuner)
        tuner.change_space(lab.other_space)
        run(tuner, self.trials)
        assert lab.given(tuner), "the tuner has given nothing of the new space"

    def test_many_are_asked_for_at_once(self, lab: Lab) -> None:
        """Request many parameter sets at once.

        The tuner may give some of them later, but no set twice and none without a request.
        """
        tuner = lab.tuner(self.search_space)
        given = tuner.ask(8)
        assert given or tuner.exhausted or tuner.owed
        for _ in range(4 * self.trials):
            if not tuner.trials or not (tuner.owed or len(given) < 3):
                break
            given += tuner.end(tuner.trials[0], 0.5)
        lab.given(tuner)
        ids = [trial.parameter_id for trial in given]
        assert len(set(ids)) == len(ids)

    def test_a_tuner_that_had_no_more_may_be_asked_again(self, lab: Lab) -> None:
        """Request parameter sets from a tuner that has no more.

        It must raise NoMoreTrialError again, and no other exception.
        """
        if self.finite_space is None:
            pytest.skip("the tuner accepts no finite space")
        tuner = lab.tuner(self.finite_space)
        for number in range(_MOST):
            tuner.ask()
            if tuner.exhausted or len(tuner.trials) == 3:
                break_off = tuner.exhausted
                while len(tuner.trials) > 1 or (break_off and tuner.trials):
                    tuner.end(tuner.trials[0], _RESULTS[number % len(_RESULTS)])
                if break_off:
                    break
        tuner.ask(2)
        tuner.import_data({"parameter": {"n": 0, "c": "a"}, "value": 1})
        tuner.ask()
        lab.given(tuner)

    # Tests of the results and other events that the tuner receives

    def test_results_come_in_every_form(self, lab: Lab) -> None:
        """End trials with a number, a mapping, or no result.

        A result that is not finite counts as a failure of the trial.
        """
        tuner = lab.tuner(self.search_space)
        for value in (*_RESULTS, math.nan, math.inf, {"default": -math.inf}, NO_RESULT, 10**12):
            for trial in tuner.ask()[:1]:
                tuner.end(trial, value)
        run(tuner, 4)
        lab.given(tuner)

    def test_trials_fail(self, lab: Lab) -> None:
        """Let all trials fail at first, with and without a result. Later let only some fail."""
        tuner = lab.tuner(self.search_space)
        for number in range(self.trials):
            tuner.ask()
            if tuner.trials and number % 2:
                tuner.end(tuner.trials[0], [NO_RESULT, 0.5][number % 4 // 2], success=False)
        run(tuner, 4)
        lab.given(tuner)

    def test_trials_are_called_off_before_they_start(self, lab: Lab) -> None:
        tuner = lab.tuner(self.search_space)
        for _ in range(self.trials // 2):
            tuner.ask()
            if tuner.trials:
                tuner.end(tuner.trials[0], NO_RESULT, success=False, untried=True)
        run(tuner, 4)
        lab.given(tuner)

    def test_a_result_comes_after_all_others(self, lab: Lab) -> None:
        tuner = lab.tuner(self.search_space)
        given = tuner.ask(2)
        assert given, "the tuner has given nothing"
        first = given[0]
        for number in range(self.trials):
            tuner.ask()
            others = [trial for trial in tuner.trials if trial is not first]
            if others:
                tuner.end(others[0], _RESULTS[number % len(_RESULTS)])
        tuner.end(first, 0.125)
        run(tuner, 4)
        lab.given(tuner)

    def test_a_trial_is_run_again(self, lab: Lab) -> None:
        """Let a trial fail, and then let the same trial end again with a result."""
        tuner = lab.tuner(self.search_space)
        for trial in tuner.ask(3)[:1]:
            tuner.end(trial, NO_RESULT, success=False)
            tuner.end(trial, 0.5)
        run(tuner, 4)
        lab.given(tuner)

    def test_users_submit_trials_of_their_own(self, lab: Lab) -> None:
        """Submit parameter sets as a user can do.

        They may be outside of the search space, or sets that the tuner has suggested before.
        """
        tuner = lab.tuner(self.search_space)
        known = [trial.parameters for trial in tuner.ask(2)]
        for parameters in (*known, {"somewhere": "else"}, {}, {"uniform": 1e9, "choice": "unknown"}):
            own = tuner.submit(parameters)
            run(tuner, 2)
            if own in tuner.trials:
                tuner.end(own, 0.5)
        run(tuner, 4)
        lab.given(tuner)

    def test_results_are_imported(self, lab: Lab) -> None:
        """Import results from other experiments, before the first request and later.

        Some of them are from other search spaces.
        """
        tuner = lab.tuner(self.search_space)
        tuner.import_data({"parameter": {"somewhere": "else"}, "value": 1.5})
        known = [trial.parameters for trial in tuner.ask(2)]
        records = [{"parameter": each, "value": {"default": 2, "time": 1}} for each in known]
        tuner.import_data(*records, {"parameter": {}, "value": "0.5"}, *records)
        run(tuner, 4)
        lab.given(tuner)

    def test_it_may_leave_at_any_time(self, lab: Lab) -> None:
        lab.tuner(self.search_space).leave()
        tuner = lab.tuner(self.search_space)
        run(tuner, 3)
        tuner.leave()

    # Tests of a tuner that was restarted

    def test_rebuilt_it_gives_the_same_sets(self, lab: Lab) -> None:
        tuner = lab.tuner(self.search_space)
        way = way_of(self.make())
        if way is Way.IMPORT:
            pytest.skip("the tuner has no recall, no dump_state with load_state and is not replayable")
        for number in range(self.trials):
            match number:
                case 3:
                    tuner.submit({"somewhere": "else"})
                case 5:
                    tuner.import_data({"parameter": {"somewhere": "else"}, "value": 1.5})
                case 7 if tuner.trials:
                    tuner.end(tuner.trials[0], NO_RESULT, success=False, untried=True)
                case 9:
                    tuner.change_space(lab.other_space)
            if tuner.wants_metrics and tuner.trials:
                trial = tuner.trials[number % len(tuner.trials)]
                tuner.report(trial, 0.5, {"default": number})
                if number % 3 == 0:
                    tuner.roll_back(trial, 1)
            up_to, parameter_id, owes = tuner.record.number, tuner.next_id, bool(tuner.owed)
            given = [trial.text for trial in tuner.ask() if trial.parameter_id == parameter_id]
            if not owes and number not in (1, 2):
                again = tuner.restarted(up_to=up_to).answer(parameter_id)
                before = given[0] if given else None
                assert again == before, (
                    f"set {parameter_id} differs after the tuner was restored {_BY[way]}: it was {before}, "
                    f"and is {again}"
                )
            if len(tuner.trials) > 2:
                value = [0.5, {"default": 1.5}, NO_RESULT][number % 3]
                tuner.end(tuner.trials[0], value, success=value is not NO_RESULT)

    def test_rebuilt_it_continues(self, lab: Lab) -> None:
        """Restart the tuner. It must accept the results of trials that began before the restart."""
        tuner = lab.tuner(self.search_space)
        run(tuner, 6)
        again = tuner.restarted()
        again.trials = list(tuner.trials)
        run(again, 6)
        lab.given(again)

    def test_it_takes_another_ones_place(self, lab: Lab) -> None:
        """Let the tuner replace another tuner. Some trials of the replaced tuner are still running."""
        if not self.takes_over:
            pytest.skip("the tuner never replaces another tuner")
        record = lab.record(self.search_space)
        for number, parameters in enumerate(({"somewhere": "else"}, {"uniform": 0.5}, {}, {"n": 1})):
            trial = record.suggested(number, json.dumps(parameters), fed_to=record.number, state='{"old": 1}')
            if number < 2:
                record.ended(trial, "0.5", success=True)
        since = record.tuner_changed()
        tuner = HostedTuner(self.make, record, self.search_space, builtin=self.builtin, since=since)
        tuner.next_id = 4
        run(tuner, 6)
        again = tuner.restarted()
        again.trials = list(tuner.trials)
        run(again, 4)
        assert lab.given(tuner) and lab.given(again), "the tuner has given nothing"

    # Tests of the conditions that an experiment sets for every parameter set

    def test_it_obeys_rules(self) -> None:
        """Forbid about half of all parameter sets. The tuner must not suggest a forbidden set."""
        tuner = self.make()
        if not callable(getattr(tuner, "obey", None)):
            pytest.skip("the tuner has no obey: it is asked again until it gives a valid set")

        def feasible(parameters: Any) -> bool:
            text = json.dumps(self.without_additions(parameters), sort_keys=True)
            return zlib.crc32(text.encode()) % 2 == 0

        tuner.obey(Rules(feasible=feasible))
        tuner.update_search_space(dict(self.search_space))
        for parameter_id in range(self.trials):
            (parameters,) = tuner.generate_multiple_parameters([parameter_id]) or [None]
            if parameters is None:  # the tuner waits for results
                break
            assert feasible(json.loads(json.dumps(parameters))), f"{parameters} is not feasible"
            tuner.receive_trial_result(parameter_id, parameters, 0.5 * parameter_id, trial_job_id="x")
            tuner.trial_end(parameter_id, True, trial_job_id="x")

    def test_it_gives_no_set_twice_where_none_may_repeat(self) -> None:
        """Forbid repeated parameter sets.

        A tuner with the method `obey` has to implement the setting `duplicates: skip` itself.
        """
        tuner = self.make()
        if self.finite_space is None or not callable(getattr(tuner, "obey", None)):
            pytest.skip("the tuner accepts no finite space, or has no obey: then repeated sets are rejected")
        tuner.obey(Rules(never_repeat=True))
        tuner.update_search_space(dict(self.finite_space))
        given: set[str] = set()
        for parameter_id in range(_MOST):
            try:
                (parameters,) = tuner.generate_multiple_parameters([parameter_id]) or [None]
            except NoMoreTrialError:
                break
            if parameters is None:  # no more sets, or waiting for results
                break
            text = identity(json.loads(json_text(parameters, f"parameter set {parameter_id}")))
            assert text not in given, f"{parameters} was given before"
            given.add(text)
            tuner.receive_trial_result(parameter_id, parameters, 0.5 * parameter_id, trial_job_id="x")
            tuner.trial_end(parameter_id, True, trial_job_id="x")

    # Helpers of the tests

    def without_additions(self, parameters: Any) -> Any:
        if not isinstance(parameters, dict):
            return parameters
        return {name: value for name, value in parameters.items() if name not in self.adds}

    @pytest.fixture
    def lab(self, tmp_path: Path) -> Iterator[Lab]:
        made = Lab(self, tmp_path)
        yield made
        made.close()


class Lab:
    """Creator of experiments with the tuner under test. It checks the parameter sets that the tuner gives."""

    def __init__(self, suite: TunerConformance, directory: Path) -> None:
        self._suite, self._directory = suite, directory
        self._records: list[Record] = []

    def close(self) -> None:
        for record in self._records:
            record.close()

    @property
    def other_space(self) -> Space:
        if self._suite.other_space is not None:
            return self._suite.other_space
        names = list(self._suite.search_space)
        return {name: self._suite.search_space[name] for name in names[: max(1, len(names) // 2)]}

    def record(self, space: Space) -> Record:
        self._records.append(Record(self._directory / f"{len(self._records)}.sqlite", space))
        return self._records[-1]

    def tuner(self, space: Space) -> HostedTuner:
        """Return a new experiment with the tuner under test and this search space."""
        suite = self._suite
        return HostedTuner(suite.make, self.record(space), space, builtin=suite.builtin)

    def given(self, tuner: HostedTuner) -> list[Any]:
        """Return all parameter sets that the tuner has suggested since the last call.

        Check that each of them is inside the search space.
        """
        found = [trial.parameters for trial in tuner.given]
        if self._suite.exact:
            space = parse(tuner.space)
            for parameters in found:
                faults = contains(space, self._suite.without_additions(parameters))
                assert not faults, f"{parameters}: {faults[0]}"
        tuner.given.clear()
        return found


def run(tuner: HostedTuner, count: int) -> None:
    """Request parameter sets ``count`` times, and end trials so that at most two are left running."""
    for number in range(count):
        tuner.ask()
        while len(tuner.trials) > 2 or (tuner.owed and tuner.trials):
            before = len(tuner.trials)
            tuner.end(tuner.trials[0], _RESULTS[number % len(_RESULTS)])
            if tuner.owed and len(tuner.trials) >= before:
                break
