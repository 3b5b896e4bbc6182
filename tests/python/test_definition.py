"""Definitions of experiments in Python: what their arguments become, and how errors are named."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import yaml

from nnimgr import ArgumentError, Error, Experiment, Run, space
from nnimgr.client.errors import ClientError
from nnimgr.home import Home
from nnimgr.python.connection import Connection
from nnimgr.python.errors import argument_of, translated, with_calls
from nnimgr.python.trainable import IMPORTING, check_guard, refuse_inside_a_trial, work_of
from nnimgr.search_space import validate
from tests.python.messages import in_lines

ROOT = Path(__file__).parents[2]
SPACE = {"x": space.uniform(0, 1)}


def config(trial: Any = "true", **arguments: Any) -> dict[str, Any]:
    """Return the configuration of an experiment with these arguments."""
    given: dict[str, Any] = {"maximize": True, **arguments}
    found: dict[str, Any] = yaml.safe_load(Experiment(trial, given.pop("space", SPACE), **given).yaml())
    return found


def top_level(p: dict[str, Any]) -> float:
    return 1.0


async def later(p: dict[str, Any]) -> float:
    return 1.0


if sys.platform != "none":

    def under_if(p: dict[str, Any]) -> float:
        return 1.0


class TopLevel:
    def step(self) -> float:
        return 1.0


class NoLoad:
    step = save = print


class NoStep:
    pass


# ---- search spaces ----------------------------------------------------------------------------------------


def test_a_space_has_nnis_format() -> None:
    found = space.plain(
        {
            "a": space.choice([1, "two"]),
            "b": space.randint(1, 5),
            "c": space.quniform(0, 1, 0.1),
            "d": space.loguniform(1e-5, 1),
            "e": space.qloguniform(1, 100, 2),
            "f": space.normal(0, 1),
            "g": space.qnormal(0, 1, 0.5),
            "h": space.lognormal(0, 1),
            "i": space.qlognormal(0, 1, 0.5),
            "net": space.choice({"small": {"width": space.randint(1, 9), "depth": 2}, "none": {}}),
            "epochs": 10,
            "flag": True,
        }
    )
    validate(found)
    assert found["a"] == {"_type": "choice", "_value": [1, "two"]}
    assert found["net"]["_value"][0] == {
        "_name": "small",
        "width": {"_type": "randint", "_value": [1, 9]},
        "depth": {"_type": "choice", "_value": [2]},
    }
    assert found["epochs"] == {"_type": "choice", "_value": [10]}
    assert found["flag"] == {"_type": "choice", "_value": [True]}


def test_one_option_must_be_in_a_list() -> None:
    with pytest.raises(TypeError, match=in_lines(r"choice\(\['adam'\]\)")):
        space.choice("adam")


# ---- arguments --------------------------------------------------------------------------------------------


def test_arguments_become_fields() -> None:
    found = config(
        trials=5, at_once=2, hours=0.5, gpus=1, cpus=2, memory="8gb", retries=3, checkpoints=2, name="a b",
        constraints=["x < 1"], initial=[{"x": 0.5}], assessor="Medianstop", stop={"failures": 3}, seed=7,
        scheduler={"name": "PBT", "classArgs": {"quantile_fraction": 0.3}}, config={"debug": True},
        sinks=["csv", {"name": "tensorboard", "classArgs": {"directory": "runs"}}],
    )  # fmt: skip
    assert found == {
        "experimentName": "a b",
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
        "searchSpaceConstraints": ["x < 1"],
        "initialParameters": [{"x": 0.5}],
        "trialCodeDirectory": os.getcwd(),
        "trialConcurrency": 2,
        "maxTrialNumber": 5,
        "maxExperimentDuration": "1800s",
        "trialGpuNumber": 1,
        "trialCpuNumber": 2,
        "trialMemorySize": "8gb",
        "goal": "maximize",
        "tuner": {"name": "TPE", "classArgs": {"seed": 7}},
        "assessor": {"name": "Medianstop"},
        "scheduler": {"name": "PBT", "classArgs": {"quantile_fraction": 0.3}},
        "trainingService": {"platform": "local", "useActiveGpu": False},
        "checkpoints": {"keepLast": 2},
        "maxRetries": 3,
        "stopWhen": {"failures": 3},
        "sinks": [{"name": "csv"}, {"name": "tensorboard", "classArgs": {"directory": "runs"}}],
        "trialCommand": "true",
        "debug": True,
    }


def test_a_relative_code_directory_starts_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"className": "mine.Mine", "codeDirectory": Path("algorithms")}
    kept = {"className": "mine.Mine", "codeDirectory": str(tmp_path / "algorithms")}
    found = config(tuner=given, assessor=given, scheduler=given, sinks=[given])
    assert [found["tuner"], found["assessor"], found["scheduler"], *found["sinks"]] == [kept] * 4

    class Recording(Connection):
        def change(self, changes: dict[str, Any]) -> Any:
            self.changes = changes

    connection = Recording(Home.find(), "abc")
    Run(connection).update(tuner={**given, "codeDirectory": "algorithms"})
    assert connection.changes == {"tuner": kept}


@pytest.mark.parametrize(
    ("goals", "fields"),
    [
        ({"maximize": True}, {"goal": "maximize"}),
        ({"minimize": True, "maximize": False}, {"goal": "minimize"}),
        ({"minimize": "loss"}, {"objectives": {"loss": "minimize"}}),
        ({"maximize": "acc", "minimize": ["size", "ms"]},
         {"objectives": {"acc": "maximize", "size": "minimize", "ms": "minimize"}}),
    ],
)  # fmt: skip
def test_the_goal(goals: dict[str, Any], fields: dict[str, Any]) -> None:
    found = config(**{"maximize": None, **goals})
    assert {key: found[key] for key in ("goal", "objectives") if key in found} == fields


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"maximize": None}, "maximize, minimize: give one of them: maximize=True"),
        ({"maximize": False, "minimize": False}, "maximize, minimize: give one of them: maximize=True"),
        (
            {"maximize": False},
            "maximize: False does not say which results are better. For a minimum write minimize=True",
        ),
        (
            {"maximize": None, "minimize": False},
            "minimize: False does not say which results are better. For a maximum write maximize=True",
        ),
        ({"maximize": 3}, "maximize: must be the name of a metric, not 3"),
        ({"maximize": "a", "minimize": "a"}, "minimize: the metric 'a' is given twice"),
        ({"hours": -1}, "hours: must be a number greater than 0, not -1"),
        ({"hours": float("nan")}, "hours: must be a number greater than 0, not nan"),
        ({"machines": "gpu1"}, "machines: must be a list"),
        ({"preload": "torch"}, r'preload: must be a list of modules, such as \["torch"\]'),
        ({"trial": "top_level"}, "trial: 'top_level' is read as a command, and there is no such command"),
        ({"machines": ["gpu1:ssh"]}, "machines: 'gpu1:ssh' is not of the form"),
        ({"space": {"x": space.choice([object()])}}, "space: a value of type object cannot be stored"),
        ({"space": {"x": space.uniform(0, float("inf"))}}, "space: must be a finite number, not inf"),
    ],
)
def test_arguments_that_cannot_be_used(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ArgumentError, match=in_lines("^" + sentence.replace("(", r"\("))):
        config(**arguments)


def test_a_resident_trial_needs_the_method_reset() -> None:
    sentence = (
        "^resident: needs a class with the methods step and reset as the trial, and top_level is no class"
    )
    with pytest.raises(ArgumentError, match=in_lines(sentence)):
        config(top_level, preload=["torch"], resident=True)
    assert "resident" not in config(preload=["torch"])
    assert config(trial="tests/python/test_definition.py:top_level", resident=True)["resident"] is True


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"minimize": True}, "maximize, minimize: give only one of them for a result that is one number"),
        ({"minimize": "loss"}, "maximize, minimize: give only one of them for a result that is one number"),
        (
            {"config": {"goal": "minimize"}},
            'config.goal: is "minimize", but "maximize" follows from maximize; leave one of them out',
        ),
        (
            {"maximize": "acc", "minimize": "ms", "config": {"objectives": {"ms": "minimize"}}},
            "follows from maximize and minimize; leave one of them out",
        ),
        (
            {"trials": 20, "config": {"maxTrialNumber": 5}},
            "config.maxTrialNumber: is 5, but 20 follows from trials; leave one of them out",
        ),
        ({"seed": 1, "config": {"tuner": {"name": "Random"}}}, "follows from tuner; leave one of them out"),
    ],
)
def test_arguments_that_contradict_each_other(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError, match=in_lines(sentence)) as refused:
        config(**arguments)
    assert isinstance(refused.value, ArgumentError)


def test_config_replaces_default_arguments() -> None:
    found = config(config={"trialConcurrency": 4, "tuner": {"name": "Random"}, "goal": "maximize"})
    assert (found["trialConcurrency"], found["tuner"]) == (4, {"name": "Random"})


def test_long_lines_of_errors_are_broken() -> None:
    error = Error("word " * 40, plain="x" * 100, hint="a long hint " * 12)
    *lines, plain = (line for line in str(error).splitlines() if "hint" not in line)
    assert plain == "x" * 100 and all(len(line) <= 80 for line in str(error).splitlines() if line != plain)
    assert len(lines[0]) + len("nnimgr.python.errors.Error: ") <= 80


def test_long_lines_of_errors_are_whole_in_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNI_PLATFORM", "local")
    assert str(Error("word " * 40)) == "word " * 40


@pytest.mark.parametrize(
    ("arguments", "service"),
    [
        ({}, {"platform": "local"}),
        ({"gpus": 0}, {"platform": "local"}),
        ({"gpus": "{{ 1 if x < 1 else 2 }}"}, {"platform": "local", "useActiveGpu": False}),
        (
            {"gpus": 1, "machines": {"platform": "local", "useActiveGpu": True}},
            {"platform": "local", "useActiveGpu": True},
        ),
        (
            {"gpus": 1, "config": {"trainingService": [{"platform": "local"}, {"platform": "kubernetes"}]}},
            [{"platform": "local", "useActiveGpu": False}, {"platform": "kubernetes"}],
        ),
    ],
)
def test_trials_on_this_machine_leave_busy_gpus(arguments: dict[str, Any], service: Any) -> None:
    assert config(**arguments)["trainingService"] == service


def test_machines() -> None:
    found = config(top_level, machines=["alice@gpu1:2222", "gpu2", {"host": "c"}])
    machines = [{"host": "gpu1", "user": "alice", "port": 2222}, {"host": "gpu2"}, {"host": "c"}]
    assert found["trainingService"] == {"platform": "remote", "machineList": machines}
    assert found["trialCommand"] == "python3 -m nni.run tests/python/test_definition.py:top_level"
    assert config(machines={"platform": "kubernetes"})["trainingService"] == {"platform": "kubernetes"}


def test_numbers_of_numpy_are_stored_as_numbers() -> None:
    found = config(space={"x": space.uniform(numpy.float64(0), 1)}, trials=numpy.int64(3))
    assert found["searchSpace"]["x"]["_value"] == [0.0, 1] and found["maxTrialNumber"] == 3


@pytest.mark.parametrize(
    ("field", "argument"),
    [
        ("trialConcurrency", "at_once"),
        ("searchSpace.lr._value[0]", 'space["lr"][0]'),
        ("searchSpace.lr", 'space["lr"]'),
        ("searchSpace", "space"),
        ("searchSpaceConstraints[1]", "constraints[1]"),
        ("tuner.classArgs.seed", "tuner.classArgs.seed"),
        ("checkpoints.keepLast", "checkpoints"),
        ("nniManagerIp", "config.nniManagerIp"),
        ("path.name", "name"),
    ],
)
def test_fields_are_named_as_arguments(field: str, argument: str) -> None:
    assert argument_of(field) == argument


def test_errors_of_the_server_name_arguments() -> None:
    problem = {"field": "duplicates", "message": "'duplicates: reuse' needs 'maxTrialNumber'"}
    with (
        pytest.raises(
            ArgumentError, match=in_lines("^duplicates: 'duplicates: reuse' needs 'trials'$")
        ) as refused,
        translated(),
    ):
        raise ClientError("a", problems=[problem])
    assert refused.value.__suppress_context__  # users see one error
    with pytest.raises(Error, match=in_lines(r"^trials \(3\) is reached$")) as caught, translated():
        raise ClientError("MaxTrialNumber (3) is reached", mend="Repeat: {command}")
    assert caught.value.hint == ""
    with pytest.raises(Error, match=in_lines(r"^gone\n  See: nnictl top$")), translated():
        raise ClientError("gone", mend="See: nnictl top")


@pytest.mark.parametrize(
    ("command", "call"),
    [
        (
            'raise it: "nnictl update trialnum py-two --value 5"',
            "raise it: nnimgr.Run.attach('py-two').update(trials=5)",
        ),
        (
            'to continue: "nnictl update stopwhen a --filename FILE"',
            "to continue: nnimgr.Run.attach('a').update(stop=...)",
        ),
        (
            'to list: "nnictl trial checkpoint ls a -T b1c"',
            "to list: nnimgr.Run.attach('a').trials[\"b1c\"].checkpoints",
        ),
        (
            '(to continue it: "nnictl trial resume a -T b1c")',
            "(to continue it: nnimgr.Run.attach('a').trials[\"b1c\"].resume())",
        ),
        ("continue: nnictl resume a-b; if", "continue: nnimgr.Run.attach('a-b').resume(); if"),
        ("See: nnictl top", "See: nnictl top"),
    ],
)
def test_commands_in_errors_become_calls(command: str, call: str) -> None:
    assert with_calls(command) == call
    with pytest.raises(Error) as caught, translated():
        raise ClientError(command)
    assert caught.value.sentence == call


# ---- what trials run --------------------------------------------------------------------------------------


def test_functions_and_classes_are_found_by_file_and_name() -> None:
    for given in (top_level, "tests.python.test_definition:top_level", f"{__file__}:top_level"):
        work = work_of(given)
        assert work.directory == ROOT and work.target == "tests/python/test_definition.py:top_level"
    assert work_of(TopLevel).target == "tests/python/test_definition.py:TopLevel"
    assert work_of(under_if).target == "tests/python/test_definition.py:under_if"
    assert work_of(top_level).command_for("/a b/python") == (
        "'/a b/python' -m nni.run tests/python/test_definition.py:top_level"
    )
    assert work_of("python3 train.py --fast").command_for("python3") == "python3 train.py --fast"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            lambda p: SPACE,
            "a lambda cannot be found by name, and uses SPACE from there. Put it",
        ),
        (
            TopLevel().step,
            "TopLevel.step is a method, and uses self from there. Write a function that calls it",
        ),
        (max, "max is built into Python and has no .py file. Write a function that calls it"),
        (NoStep, "the class NoStep has no method 'step'"),
        (NoLoad, "the class NoLoad has the method 'save', but no 'load'"),
        (1, "1 is neither a command, nor a function or class. Pass the function itself"),
        (functools.partial(top_level), "functools.partial.* is neither a command, nor a function"),
        (
            "tests.python.test_definition:missing",
            "defines no missing at its top level .it defines: config",
        ),
        (
            "tests.python.test_definition:later",
            r"later in .* is an async function; write a function that calls asyncio.run\(later",
        ),
        ("nothing.here:f", "there is no module nothing.here"),
        ("nothing/here.py:f", "there is no file .*/nothing/here.py"),
    ],
)
def test_what_cannot_be_shipped_is_refused(given: Any, sentence: str) -> None:
    with pytest.raises(ArgumentError, match=in_lines(f"^trial: .*{sentence}")):
        work_of(given)


class Later:
    async def __call__(self, p: dict[str, Any]) -> float:
        return 1.0


@pytest.mark.parametrize("ship", ["path", "pickle"])
def test_an_async_function_is_refused(ship: Any) -> None:
    async def yields(p: dict[str, Any]) -> Any:
        yield 1.0

    for given, name in (
        (later, "later"),
        (yields, "yields"),
        (functools.partial(later), "later"),
        (Later(), "trial"),
    ):
        with pytest.raises(ArgumentError) as caught:
            work_of(given, ship=ship)
        assert caught.value.sentence == (
            f"trial: {name} is an async function; write a function that calls asyncio.run({name}(...))"
        )


def test_a_nested_function_is_refused_with_what_it_captures() -> None:
    model = object()

    def nested(p: dict[str, Any]) -> Any:
        return model

    with pytest.raises(ArgumentError, match=in_lines("function, and uses model from there")):
        work_of(nested)


def test_a_function_of_a_notebook_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules[__name__], "__file__")
    with pytest.raises(ArgumentError, match=in_lines("top_level is defined in a notebook or at a prompt")):
        work_of(top_level)


def test_a_replaced_function_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    before = top_level
    monkeypatch.setattr(sys.modules[__name__], "top_level", functools.wraps(top_level)(lambda p: 1.0))
    with pytest.raises(ArgumentError, match=in_lines("top_level .* means something else")):
        work_of(before)


def test_a_file_with_an_error_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(:\n")
    with pytest.raises(ArgumentError, match=in_lines("mine.py cannot be read: invalid syntax")):
        work_of(f"{tmp_path}/mine.py:f")


@pytest.mark.parametrize(("guard", "refused"), [("if True", True), ("if __name__ == '__main__'", False)])
def test_a_script_without_a_guard_is_refused(tmp_path: Path, guard: str, refused: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from nnimgr.python.trainable import check_guard, work_of\n\ndef f(p):\n    return 1\n\n"
        f"def main():\n    check_guard(work_of(f))\n\n{guard}:\n    main()\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) is refused, done.stderr
    sentence = (
        "script.py:10: script.py starts an experiment whenever it is imported, and its trials import it."
    )
    assert (re.search(in_lines(sentence), done.stderr) is not None) is refused
    check_guard(work_of(top_level))


def test_no_experiment_starts_while_a_trial_imports_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(IMPORTING, "/a/mine.py")
    with pytest.raises(Error, match=in_lines(r"mine.py starts an experiment .* under: if __name__ ==")):
        refuse_inside_a_trial()


# ---- the import -------------------------------------------------------------------------------------------


def test_the_import_is_light() -> None:
    heavy = (
        "{'numpy', 'pandas', 'pydantic', 'sqlalchemy', 'fastapi', 'asyncio', 'yaml', 'rich', 'nnimgr.config'}"
    )
    for imports in ("import nnimgr", "from nnimgr import Experiment, Results, Run, Trial, space, tune"):
        code = f"{imports}\nimport sys\nprint(set({heavy}) & set(sys.modules))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        )
        assert done.stdout == "set()\n"


def test_unknown_names_are_reported() -> None:
    import nnimgr

    with pytest.raises(AttributeError, match=in_lines("module 'nnimgr' has no attribute 'tone'")):
        nnimgr.tone  # noqa: B018
    assert {"tune", "space", "Run"} <= set(dir(nnimgr))


def test_a_server_is_named_by_its_port() -> None:
    experiment = Experiment("true", {"x": space.uniform(0, 1)}, minimize=True, trials=1)
    with pytest.raises(ArgumentError, match=in_lines("^server: must be a port .* not 'http://a:1'$")):
        experiment.start(server="http://a:1")  # type: ignore[arg-type]
