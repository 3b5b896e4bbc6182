"""Functions that are sent by value: what can be, what it captures, and how what cannot be is refused."""

from __future__ import annotations

import functools
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

import nnimgr
from nni.run import Trial
from nnimgr import ArgumentError, Error, Experiment, Run, space, tune
from nnimgr.home import Home
from nnimgr.index import Index
from nnimgr.python.captures import captured
from nnimgr.python.pickling import pickled
from nnimgr.python.trainable import work_of
from tests.python.messages import in_lines
from tests.sshd import NEEDS_SSHD, site
from tests.trial_keeper.harness import oldest_python

SPACE = {"x": space.choice([0, 1, 2, 3])}
FACTOR = 2.0


class Model:
    def __init__(self, bias: float) -> None:
        self.bias = bias

    def fit(self, p: dict[str, Any]) -> float:
        return float(p["x"]) + self.bias


def helper(x: float) -> float:
    return x * FACTOR


def scaled(factor: float) -> Any:
    def train(p: dict[str, Any], trial: Trial) -> float:
        trial.report(p["x"])
        return helper(p["x"]) * factor

    return train


class Steps:
    steps = 2

    def __init__(self, p: dict[str, Any]) -> None:
        self.value = p["x"]

    def step(self) -> float:
        self.value += 1
        return float(helper(self.value))


# ---- what a function captures -----------------------------------------------------------------------------


def test_what_a_function_captures() -> None:
    assert captured(scaled(3.0)) == {"factor": 3.0, "helper": helper}
    assert captured(lambda p, q=1, *, r=2: [FACTOR for _ in p]) == {"FACTOR": 2.0, "q": 1, "r": 2}
    model = Model(1.0)
    assert captured(model.fit) == {"self": model}
    assert captured(Steps) == {"steps": 2, "helper": helper}
    assert captured(functools.partial(helper, 1.0)) == {"argument 1": 1.0, "FACTOR": 2.0}
    assert captured(functools.partial(helper, x=3)) == {"x": 3, "FACTOR": 2.0}
    assert captured(numpy.sin) == {}


def test_a_refused_function_names_what_it_captures_and_the_remedy() -> None:
    for given, sentence in (
        (scaled(3.0), "train is defined inside another function, and uses factor, helper from there"),
        (Model(1.0).fit, "Model.fit is a method, and uses self from there"),
        (functools.partial(helper), "is neither a command, nor a function or class"),
    ):
        with pytest.raises(ArgumentError) as caught:
            work_of(given)
        refusal = " ".join(str(caught.value).split())  # its long lines are broken
        assert sentence in refusal
        assert 'Or pass ship="pickle": then it is sent by value, with what it uses.' in refusal


# ---- what cannot be pickled -------------------------------------------------------------------------------


def test_a_large_function_names_its_largest_objects() -> None:
    data, more = numpy.zeros(2 << 20), "x" * (1 << 17)
    with pytest.raises(ArgumentError) as caught:
        pickled(lambda p: float(data[0]) + len(more))
    assert max(map(len, str(caught.value).splitlines())) <= 88
    assert " ".join(str(caught.value).split()) == (
        "trial: the pickle of lambda is larger than 10.0 MiB, the limit. The largest objects that it "
        "captures: data (16.0 MiB), more (0.1 MiB). Let the function read large data from a file or a "
        "service instead."
    )


def test_what_cannot_be_pickled_is_named() -> None:
    lock, number = threading.Lock(), 1
    with pytest.raises(
        ArgumentError,
        match=in_lines(r"^trial: lambda cannot be pickled, because of lock: TypeError: "),
    ):
        pickled(lambda p: lock.locked() + number)


def test_arguments_that_cannot_be_used() -> None:
    with pytest.raises(ArgumentError, match=in_lines(r"^ship: unknown value 'copy' \(valid: path, pickle\)")):
        Experiment(helper, SPACE, maximize=True, ship="copy")  # type: ignore[arg-type]
    with pytest.raises(
        ArgumentError, match=in_lines(r"""^ship: "pickle" is for functions and classes, and trial is 'a""")
    ):
        Experiment("a.py:f", SPACE, maximize=True, ship="pickle")
    with pytest.raises(ArgumentError, match=in_lines(r"^trial: the class Model has no method 'step'")):
        Experiment(Model, SPACE, maximize=True, ship="pickle")
    with pytest.raises(Error, match=in_lines(r"^The function is in no file that an exp.yml could name")):
        Experiment(helper, SPACE, maximize=True, ship="pickle").yaml()


def test_without_cloudpickle_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ArgumentError, match=in_lines(r'^ship: "pickle" needs .*: pip install cloudpickle$')):
        pickled(helper)


# ---- with a server ----------------------------------------------------------------------------------------


def test_functions_methods_and_classes_run_by_value(port: int, folder: Path) -> None:
    options: dict[str, Any] = {
        "trials": 4, "tuner": "GridSearch", "server": port, "show": "nothing", "ship": "pickle",
        "maximize": True,
    }  # fmt: skip
    results = tune(scaled(3.0), SPACE, name="nested", **options)
    assert [trial.value for trial in results] == [0.0, 6.0, 12.0, 18.0]
    assert results.trials[1].curve() == [(0, 1.0)]
    assert tune(Model(0.5).fit, SPACE, **options).best_value == 3.5
    assert tune(lambda p: helper(p["x"]), SPACE, **options).best_value == 6.0
    assert tune(Steps, SPACE, **options).best_value == 10.0
    where = Index(Home.find()).entries()["nested"].directory / "function"
    assert (where / "train.pickle").is_file()


def test_an_experiment_continues_with_the_present_function(port: int, folder: Path) -> None:
    def started(factor: float, trials: int, **more: Any) -> Run:
        given: dict[str, Any] = {
            "maximize": True,
            "tuner": "GridSearch",
            "name": "mine",
            "ship": "pickle",
            **more,
        }
        return Experiment(scaled(factor), SPACE, trials=trials, **given).start(server=port)

    assert [trial.value for trial in started(1.0, 2).wait(show="nothing")] == [0.0, 2.0]
    assert [trial.value for trial in started(2.0, 4).wait(show="nothing")] == [0.0, 2.0, 8.0, 12.0]
    with pytest.raises(ArgumentError, match=in_lines("exists with another goal")):
        started(3.0, 4, maximize=None, minimize=True)


def test_a_refused_experiment_leaves_nothing(port: int, folder: Path) -> None:
    with pytest.raises(ArgumentError, match=in_lines("at_once: must be greater than 0")):
        tune(scaled(1.0), SPACE, maximize=True, at_once=0, name="mine", ship="pickle", server=port)
    assert not (Home.find().path / "mine").exists()


@pytest.mark.skipif(NEEDS_SSHD, reason="there is no sshd")
def test_a_function_runs_by_value_on_machines(
    port: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = oldest_python()
    other = None if old is None else os.path.dirname(shutil.which(old) or old)
    options: dict[str, Any] = {
        "trials": 2, "tuner": "GridSearch", "server": port, "show": "nothing", "ship": "pickle",
        "maximize": True,
    }  # fmt: skip
    with site(tmp_path) as hosts:
        monkeypatch.setenv("HOME", str(hosts.home))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        machine = hosts.machine()
        place = {"host": machine.address, "port": machine.port, "user": hosts.user}
        same = {**place, "pythonPath": os.path.dirname(sys.executable)}
        results = tune(scaled(3.0), SPACE, machines=[same], **options)
        assert [trial.value for trial in results] == [0.0, 6.0]
        if other is not None:
            results = tune(scaled(3.0), SPACE, machines=[{**place, "pythonPath": other}], **options)
            with pytest.raises(nnimgr.NoResult, match=in_lines(r"Python 3\.1\d\.\d+ there, and 3\.8")):
                results.best_params  # noqa: B018 - reading the property raises the error
        for run in map(Run.attach, Index(Home.find()).entries()):
            run.stop()
