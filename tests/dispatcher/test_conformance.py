"""The suite for authors of algorithms: all built-in algorithms pass it, and it finds errors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from nnimgr.algorithm import Assessor, AssessResult, Tuner
from nnimgr.dispatcher import registry
from nnimgr.scheduler import Decisions, Scheduler, Stop, Trial
from nnimgr.schedulers.asha import ASHAScheduler
from nnimgr.schedulers.pbt import PBTScheduler
from nnimgr.testing import AssessorConformance, SchedulerConformance, TunerConformance
from nnimgr.testing.hosting import HostedAssessor
from nnimgr.testing.population import Population
from nnimgr.testing.record import Record
from nnimgr.testing.tuners import Lab

FEW = {"combine_params": {"_type": "choice", "_value": [{"n": 0}, {"n": 1}]}}
MANY = {"combine_params": {"_type": "choice", "_value": [{"n": n} for n in range(40)]}}
# Fields of a built-in algorithm's suite that its table entry does not contain.
FIELDS: dict[str, dict[str, Any]] = {
    "PB2": {"trials": 6, "length": 8},
    "Batch": {"search_space": MANY, "nested_space": None, "finite_space": FEW, "exact": False},
}


# Arguments of a built-in algorithm with which its tests are worth more, by the title of its suite.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "TestPBTScheduler": {"perturbation_interval": 2},
    "TestPB2Scheduler": {"perturbation_interval": 2},
    "TestHyperBandScheduler": {"max_budget": 9},
    "TestPBTReplayScheduler": {
        "schedule": [
            {"reports": 0, "parameters": {"uniform": 0.5}},
            {"reports": 3, "parameters": {"uniform": 0.25}},
            {"reports": 7, "parameters": {"uniform": 1.0}},
        ]
    },
}


def made(builtin: registry.Builtin) -> Any:
    arguments = {"seed": 7} if "seed" in builtin.arguments else {}
    try:
        return registry.load(builtin.target)(**arguments, **ARGUMENTS.get(title(builtin), {}))
    except ModuleNotFoundError as error:  # an optional library is not installed
        pytest.skip(str(error))


def title(builtin: registry.Builtin) -> str:
    return f"Test{builtin.name}{builtin.role.title()}"


def accepted(builtin: registry.Builtin, space: Any) -> dict[str, Any]:
    """Return the part of the search space that the built-in algorithm accepts."""
    if builtin.space is None or builtin.space(space) is None:
        return dict(space)
    return {name: spec for name, spec in space.items() if builtin.space({name: spec}) is None}


def suite(builtin: registry.Builtin) -> type:
    """Return the suite of a built-in algorithm, in the search spaces that it accepts."""
    fields: dict[str, Any] = {"builtin": True, "make": lambda self: made(builtin)}
    if builtin.role == "assessor":
        return type(title(builtin), (AssessorConformance,), fields)
    if builtin.role == "scheduler":
        return type(title(builtin), (SchedulerConformance,), fields | FIELDS.get(builtin.name, {}))
    flat, nested = accepted(builtin, TunerConformance.search_space), TunerConformance.nested_space
    finite = accepted(builtin, TunerConformance.finite_space)
    fields |= {"search_space": flat, "finite_space": finite or None, "adds": builtin.adds}
    fields["takes_over"] = not builtin.advisor
    fields["nested_space"] = nested if accepted(builtin, nested) == nested else None
    return type(title(builtin), (TunerConformance,), fields | FIELDS.get(builtin.name, {}))


for each in registry.BUILTINS:
    globals()[title(each)] = suite(each)


class TestASHAThatStops(SchedulerConformance):
    builtin = True

    def make(self) -> Scheduler:
        return ASHAScheduler(stop=True)


class TestSynchronousPBT(SchedulerConformance):
    builtin = True

    def make(self) -> Scheduler:
        return PBTScheduler(perturbation_interval=3, synchronous=True, population_size=6, seed=1)


# ---- what it finds ----------------------------------------------------------------------------------------


class Sound(Tuner):
    """Correct tuner: a random search of its own."""

    replayable: ClassVar[bool] = True

    def __init__(self) -> None:
        self.random = random.Random(1)

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self.space = search_space

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        return {name: self.random.choice(spec["_value"]) for name, spec in self.space.items()}

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        pass


class Unseeded(Sound):
    def __init__(self) -> None:
        self.random = random.Random()


class Elsewhere(Sound):
    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        return {**super().generate_parameters(parameter_id), "more": 1}


class OnlyNumbers(Sound):
    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        float(value)


class Proud(Sound):
    """Wrong tuner: accepts only results of the sets that it has suggested."""

    _accept_customized = True

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        parameters["one"]


class Importer(Sound):
    def import_data(self, data: list[dict[str, Any]]) -> None:
        for record in data:
            record["parameter"]["one"]


class Ended(Sound):
    def trial_end(self, parameter_id: int, success: bool, **kwargs: Any) -> None:
        if not success:
            raise RuntimeError("a trial has failed")


class Plain(Sound):
    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        return {**super().generate_parameters(parameter_id), "one": {1, object()}}


class Unknown(Sound):
    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        return {**super().generate_parameters(parameter_id), "one": {"deep": [1, float("nan")]}}


class First(Sound):
    """Wrong tuner: ignores a change of the search space."""

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self.space = getattr(self, "space", search_space)


class Hearing(Sound):
    """Correct tuner: its sets depend on intermediate results."""

    def receive_intermediate_result(
        self, parameter_id: int, parameters: Any, value: Any, *, sequence: int, trial_job_id: str
    ) -> None:
        self.random.seed(str(value) + str(sequence))

    def intermediate_rolled_back(self, parameter_id: int, trial_job_id: str, reports: int) -> None:
        self.random.seed(reports)


class Scalar(Hearing):
    """Wrong tuner: an intermediate result may be a mapping."""

    def receive_intermediate_result(
        self, parameter_id: int, parameters: Any, value: Any, *, sequence: int, trial_job_id: str
    ) -> None:
        self.best = max(0.0, value)


class Growing(Hearing):
    """Wrong tuner: the number of a result may come again."""

    def __init__(self) -> None:
        super().__init__()
        self.curves: dict[str, int] = {}

    def receive_intermediate_result(
        self, parameter_id: int, parameters: Any, value: Any, *, sequence: int, trial_job_id: str
    ) -> None:
        if sequence < self.curves.get(trial_job_id, 0):
            raise RuntimeError("the curve has this point already")
        self.curves[trial_job_id] = sequence + 1


class Amnesiac(Hearing):
    """Wrong tuner: its state lacks what it has learned from intermediate results."""

    replayable = False
    learned = 0

    def receive_intermediate_result(
        self, parameter_id: int, parameters: Any, value: Any, *, sequence: int, trial_job_id: str
    ) -> None:
        self.learned += 1

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
        return {name: spec["_value"][self.learned] for name, spec in self.space.items()}

    def dump_state(self) -> Any:
        return None

    def load_state(self, state: Any) -> None:
        pass


class Few(TunerConformance):
    search_space: ClassVar[Any] = {
        "one": {"_type": "choice", "_value": list(range(1000))},
        "two": {"_type": "choice", "_value": list(range(1000))},
    }
    finite_space = nested_space = None

    def __init__(self, kind: type[Tuner]) -> None:
        self.kind = kind

    def make(self) -> Any:
        return self.kind()


@pytest.fixture
def lab_of(tmp_path: Path) -> Iterator[Callable[[TunerConformance], Lab]]:
    made: list[Lab] = []

    def make(suite: TunerConformance) -> Lab:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(Lab(suite, directory))
        return made[-1]

    yield make
    for lab in made:
        lab.close()


@pytest.mark.parametrize(
    ("kind", "test", "told"),
    [
        (Unseeded, TunerConformance.test_rebuilt_it_gives_the_same_sets, "by the same calls.*: it was "),
        (Elsewhere, TunerConformance.test_it_gives_sets_of_the_space, "more"),
        (
            OnlyNumbers,
            TunerConformance.test_results_come_in_every_form,
            "receive_trial_result raised TypeError",
        ),
        (Proud, TunerConformance.test_users_submit_trials_of_their_own, "raised KeyError"),
        (Importer, TunerConformance.test_results_are_imported, "import_data raised KeyError"),
        (Importer, TunerConformance.test_it_takes_another_ones_place, "raised KeyError"),
        (Ended, TunerConformance.test_trials_fail, "trial_end raised RuntimeError: a trial has failed"),
        (Ended, TunerConformance.test_trials_are_called_off_before_they_start, "trial_end raised"),
        (Plain, TunerConformance.test_it_gives_sets_of_the_space, "has no JSON form"),
        (
            Unknown,
            TunerConformance.test_it_gives_sets_of_the_space,
            "1 in deep in one in parameter set 0 is nan",
        ),
        (First, TunerConformance.test_it_goes_over_to_another_space, "two"),
        (Scalar, TunerConformance.test_trials_report_intermediate_results, "raised TypeError"),
        (Growing, TunerConformance.test_intermediate_results_are_made_again, "has this point already"),
        (Amnesiac, TunerConformance.test_rebuilt_it_gives_the_same_sets, "by load_state: it was "),
    ],
)
def test_faults_of_tuners_are_found(
    lab_of: Callable[[TunerConformance], Lab],
    kind: type[Tuner],
    test: Callable[[TunerConformance, Lab], None],
    told: str,
) -> None:
    sound, faulty = Few(Hearing if issubclass(kind, Hearing) else Sound), Few(kind)
    test(sound, lab_of(sound))
    with pytest.raises(AssertionError, match=told):
        test(faulty, lab_of(faulty))


class Mute(Assessor):
    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> Any:
        return None if len(trial_history) > 3 else AssessResult.Good


class Forgetful(Assessor):
    """Wrong assessor: gets stricter with each ended trial, but does not recall ended trials."""

    def __init__(self) -> None:
        self.ended = 0

    def assess_trial(self, trial_job_id: str, trial_history: list[Any]) -> bool:
        return self.ended < 3

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        self.ended += 1

    def recall(self, trial_job_id: str, trial_history: list[Any], success: bool) -> None:
        pass


@pytest.mark.parametrize(
    ("kind", "test", "told"),
    [
        (Mute, AssessorConformance.test_it_judges_trials_one_after_the_other, "must return an AssessResult"),
        (Forgetful, AssessorConformance.test_rebuilt_it_says_the_same, "a restarted assessor judges"),
    ],
)
def test_faults_of_assessors_are_found(
    tmp_path: Path,
    kind: type[Assessor],
    test: Callable[[AssessorConformance, HostedAssessor], None],
    told: str,
) -> None:
    class Suite(AssessorConformance):
        def make(self) -> Any:
            return kind()

    record = Record(tmp_path / "record.sqlite", {})
    with pytest.raises(AssertionError, match=told):
        test(Suite(), HostedAssessor(kind, record, builtin=False))
    record.close()


class Chaotic(Scheduler):
    """Wrong scheduler: its random numbers differ after a restart."""

    def __init__(self) -> None:
        self.random = random.Random()

    def result_reported(self, trial: Trial) -> Decisions:
        return Stop(trial, "bad luck") if trial.decided is None and self.random.random() < 0.2 else None


class Late(Scheduler):
    """Wrong scheduler: it stops trials that have ended."""

    def trial_ended(self, trial: Trial) -> Decisions:
        return Stop(trial, "it has ended")


class OnlyFloats(Scheduler):
    """Wrong scheduler: a result may be anything."""

    def result_reported(self, trial: Trial) -> Decisions:
        return Stop(trial, "too low") if trial.results[-1] < -1 else None


class Forgetting(Scheduler):
    """Wrong scheduler: it does not know its earlier decisions after a restart."""

    decided: ClassVar[list[str]] = []

    def result_reported(self, trial: Trial) -> Decisions:
        if trial.decided is not None or len(self.decided) > 3:
            return None
        self.decided.append(trial.id)
        return Stop(trial, "it is one of the first")


@pytest.mark.parametrize(
    ("kind", "test", "told"),
    [
        (Late, "test_all_trials_end", "Stop of trial t.* is about a trial that has ended"),
        (OnlyFloats, "test_results_come_in_every_form", "result_reported raised TypeError"),
        (Chaotic, "test_rebuilt_it_decides_the_same", "decisions (after a restart at|until) fact"),
        (Forgetting, "test_rebuilt_it_decides_the_same", "was not sent again after a restart|decisions"),
    ],
)
def test_faults_of_schedulers_are_found(tmp_path: Path, kind: type[Scheduler], test: str, told: str) -> None:
    class Suite(SchedulerConformance):
        def make(self) -> Any:
            return kind()

    suite, records = Suite(), list[Record]()

    def make(**more: Any) -> Population:
        records.append(Record(tmp_path / f"{len(records)}.sqlite", suite.search_space))
        return Population(suite.make, records[-1], suite.search_space, **more)

    arguments = {"tmp_path": tmp_path} if "rebuilt" in test else {}
    with pytest.raises(AssertionError, match=told):
        getattr(suite, test)(population=make, **arguments)
    for record in records:
        record.close()
