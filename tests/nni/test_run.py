"""Functions and classes that ``nni.run`` runs as trials, in processes like those of trials."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nni import run as nni_run
from nni._running import wants_trial
from tests.nni.test_trial import PYTHONS, ROOT, Trial
from trial_keeper.machine.interpreter import lay_down


@pytest.fixture(params=PYTHONS)
def trial(tmp_path: Path, request: pytest.FixtureRequest) -> Trial:
    (tmp_path / "attempt").mkdir()
    return Trial(tmp_path / "attempt", request.param)


def ran(trial: Trial, code: str, name: str = "train", file: str = "mine.py", **environ: str) -> Any:
    """Run a function or class of a file with this code. Return the finished process."""
    path = trial.directory / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    checkpoints = str(trial.directory / "checkpoints")
    return subprocess.run(
        [trial.python, "-m", "nni.run", f"{file}:{name}"],
        env=trial.environ(**{"NNI_CHECKPOINT_DIR": checkpoints, **environ}),
        cwd=trial.directory, capture_output=True, text=True, check=False,
    )  # fmt: skip


def reports(trial: Trial) -> list[Any]:
    """Return what the trial has reported: values, ("final", value) and ("saved", step, asked)."""
    found: list[Any] = []
    for payload in re.split(rb"ME\d{6}", trial.frames())[1:]:
        record = json.loads(payload)
        if record["type"] == "CHECKPOINT":
            found.append(("saved", record["step"], record["asked"]))
        elif record["type"] == "FINAL":
            found.append(("final", json.loads(record["value"])))
        else:
            found.append(json.loads(record["value"]))
    return found


def good(done: Any) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return str(done.stdout)


# ---- functions --------------------------------------------------------------------------------------------


def test_the_return_value_is_the_final_result(trial: Trial) -> None:
    code = "import sys\ndef train(p):\n    print(sys.argv, __name__)\n    return p['x'] * 2\n"
    guard = "if __name__ == '__main__':\n    raise RuntimeError('the guard fired')\n"
    assert good(ran(trial, code + guard)) == "['mine.py'] mine\n"
    assert reports(trial) == [("final", 1.0)]


def test_a_final_result_that_was_reported_counts(trial: Trial) -> None:
    good(ran(trial, "def train(p, trial):\n    trial.final({'acc': 1})\n    return 2\n"))
    assert reports(trial) == [("final", {"acc": 1})]


def test_without_a_return_value_the_last_report_counts(trial: Trial) -> None:
    code = (
        "def train(p, trial):\n    for step in trial.steps(2):\n        "
        "trial.report(acc=step, loss=trial.parameters['x'])\n"
        "    print(trial.id, trial.number)\n"
    )
    assert good(ran(trial, code, NNI_TRIAL_SEQ_ID="4")) == "TT 4\n"
    last = {"acc": 1, "loss": 0.5}
    assert reports(trial) == [{"acc": 0, "loss": 0.5}, last, ("final", last)]


@pytest.mark.parametrize("report", ["trial.report(1, acc=2)", "trial.report({'default': 1}, acc=2)"])
def test_a_result_with_further_metrics(trial: Trial, report: str) -> None:
    good(ran(trial, f"def train(p, trial):\n    {report}\n"))
    assert reports(trial) == [{"default": 1, "acc": 2}, ("final", {"default": 1, "acc": 2})]


def test_a_report_without_a_result(trial: Trial) -> None:
    done = ran(trial, "def train(p, trial):\n    trial.report()\n")
    assert done.returncode == 1 and "TypeError: report() needs a result: report(0.9)" in done.stderr


def test_the_traceback_is_that_of_the_users_code(trial: Trial) -> None:
    code = (
        "def inner():\n    try:\n        {}['lr']\n    except KeyError as error:\n"
        "        raise ValueError('no lr') from error\n\ndef train(p):\n    inner()\n"
    )
    done = ran(trial, code)
    assert done.returncode == 1 and reports(trial) == []
    assert "_running.py" not in done.stderr and "nni/run.py" not in done.stderr
    assert "KeyError: 'lr'" in done.stderr and done.stderr.endswith("ValueError: no lr\n")
    assert [
        line.strip() for line in done.stderr.splitlines() if "in train" in line or "in inner" in line
    ] == [
        f'File "{place}/mine.py", line {line}, in {name}'
        for place, line, name in zip(
            [trial.directory] * 3, (3, 8, 5), ("inner", "train", "inner"), strict=True
        )
    ]


def test_an_import_error_is_shown_without_our_lines(trial: Trial) -> None:
    done = ran(trial, "import missing_module\n")
    assert done.returncode == 1 and "importlib" not in done.stderr
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'missing_module'\n")


def test_an_unknown_name_is_reported(trial: Trial) -> None:
    done = ran(trial, "train = 3\n")
    assert done.returncode == 1
    assert done.stderr == "nni.run: mine.py defines no function or class 'train' at its top level.\n"


def test_a_file_of_a_package_is_imported_as_a_part_of_it(trial: Trial) -> None:
    (trial.directory / "pkg").mkdir()
    (trial.directory / "pkg" / "__init__.py").touch()
    (trial.directory / "pkg" / "other.py").write_text("FACTOR = 3\n")
    code = "from .other import FACTOR\n\ndef train(p):\n    return FACTOR, __name__\n"
    good(ran(trial, code, file="pkg/deep.py"))
    assert reports(trial) == [("final", [3, "pkg.deep"])]


def test_a_file_may_have_the_name_of_a_loaded_module(trial: Trial) -> None:
    good(ran(trial, "import os\n\ndef train(p):\n    return __name__\n", file="code/os.py"))
    assert reports(trial) == [("final", "_os")]


def test_the_command_needs_a_file_and_an_experiment(trial: Trial) -> None:
    usage = "usage: python3 -m nni.run FILE.py:NAME or FILE.pickle\n"
    assert ran(trial, "", name="", file="mine.py").stderr == usage
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [trial.python, "-m", "nni.run", "mine.py:train"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "call it in Python: train(parameters)" in done.stderr


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("lambda p: 0", False),
        ("lambda p, trial: 0", True),
        ("lambda p, t: 0", True),
        ("lambda p, trial=None: 0", True),
        ("lambda p, verbose=False: 0", False),
        ("lambda *a: 0", False),
        ("functools.partial(lambda a, p, trial: 0, 1)", True),
        ("functools.wraps(lambda p, trial: 0)(lambda *a: 0)", True),
        ("Both().train", True),
        ("Both().alone", False),
    ],
)
def test_the_second_argument_is_passed_if_it_is_wanted(source: str, wanted: bool) -> None:
    import functools

    class Both:
        def train(self, p: Any, trial: Any) -> None: ...

        def alone(self, p: Any) -> None: ...

    assert wants_trial(eval(source, {"functools": functools, "Both": Both})) is wanted


# ---- checkpoints ------------------------------------------------------------------------------------------

SAVES = """
def train(p, trial):
    state = trial.load(default=lambda: {"sum": 0})
    for step in trial.steps(4):
        state["sum"] += step
        trial.report(state["sum"], save=state)
"""


def test_the_save_of_the_last_step_follows_the_final_result(trial: Trial) -> None:
    good(ran(trial, SAVES))
    assert reports(trial) == [
        *(0, ("saved", 1, False)), *(1, ("saved", 2, False)), *(3, ("saved", 3, False)),
        *(6, ("final", 6), ("saved", 4, False)),
    ]  # fmt: skip


def test_a_trial_continues_after_the_step_of_its_checkpoint(trial: Trial) -> None:
    good(ran(trial, SAVES))
    before = len(reports(trial))
    there = str(trial.directory / "checkpoints" / "2")
    good(ran(trial, SAVES, NNI_RESUME_DIR=there, NNI_RESUME_STEP="2"))
    assert [each for each in reports(trial)[before:] if not isinstance(each, tuple)] == [3, 6]
    assert reports(trial)[-2:] == [("final", 6), ("saved", 4, False)]


def test_a_report_that_somebody_waits_for_saves_and_leaves(trial: Trial) -> None:
    code = SAVES.replace("trial.report(", "open('.nni/save', 'w').close()\n        trial.report(", 1)
    code += "    print('not reached')\n"
    assert good(ran(trial, code)) == ""
    assert reports(trial) == [0, ("saved", 1, True)]


def test_a_save_without_a_pause_lets_the_trial_run_on(trial: Trial) -> None:
    request = "step == 1 and open('.nni/save', 'w').write('stay')\n        trial.report("
    good(ran(trial, SAVES.replace("trial.report(", request)))
    assert ("saved", 2, True) in reports(trial)
    assert reports(trial)[-3:] == [6, ("final", 6), ("saved", 4, False)]


def test_a_pause_in_the_last_step_lets_the_trial_end(trial: Trial) -> None:
    code = SAVES.replace(
        "trial.report(", "step == 3 and open('.nni/save', 'w').close()\n        trial.report("
    )
    good(ran(trial, code))
    assert reports(trial)[-3:] == [6, ("final", 6), ("saved", 4, False)]


def test_a_function_can_save_by_itself(trial: Trial) -> None:
    code = (
        "def train(p, trial):\n    "
        "print(trial.load(7), trial.save({'a': 1}, step=5), trial.should_checkpoint())\n"
        "    return 1\n"
    )
    assert good(ran(trial, code)) == "7 True False\n"
    assert reports(trial) == [("saved", 5, False), ("final", 1)]


def test_a_costly_state_is_saved_only_when_it_is_due(trial: Trial) -> None:
    """The clock of this trial stands still, except while the state is built."""
    code = (
        "import time\nclock = [0.0]\ntime.monotonic = lambda: clock[0]\n"
        "def state():\n    clock[0] += 1.0\n    return {}\n"
        "def train(p, trial):\n    for step in trial.steps(25):\n        clock[0] += 1.0\n"
        "        trial.report(step, save=state)\n"
    )
    good(ran(trial, code))
    steps = [each[1] for each in reports(trial) if isinstance(each, tuple) and each[0] == "saved"]
    assert steps == [1, 9, 18, 25]


def test_without_checkpoints_the_state_is_not_built(trial: Trial, tmp_path: Path) -> None:
    code = "def train(p, trial):\n    trial.report(1, save=lambda: 1 / 0)\n"
    path = trial.directory / "mine.py"
    path.write_text(code)
    command = [trial.python, "-m", "nni.run", "mine.py:train"]
    subprocess.run(command, env=trial.environ(), cwd=trial.directory, check=True)
    assert reports(trial) == [1, ("final", 1)]


# ---- classes ----------------------------------------------------------------------------------------------

CLASS = """
class Net:
    steps = 5
    save_every = 2

    def setup(self, parameters):
        self.total = parameters["x"]

    def step(self):
        self.total += 1
        return {"acc": self.total}

    def save(self):
        return {"total": self.total}

    def load(self, state):
        self.total = state["total"]

    def cleanup(self):
        print("clean")
"""


def test_a_class_that_saves_must_also_load(trial: Trial) -> None:
    done = ran(trial, CLASS.replace("def load", "def loads"), "Net")
    assert done.returncode == 1
    assert done.stderr.endswith(
        "TypeError: Net has save(), but no load(state), which gets back what was saved\n"
    )


def test_a_class_is_stepped_and_saved(trial: Trial) -> None:
    assert good(ran(trial, CLASS, "Net")) == "clean\n"
    assert reports(trial) == [
        *({"acc": 1.5}, {"acc": 2.5}, ("saved", 2, False), {"acc": 3.5}, {"acc": 4.5}, ("saved", 4, False)),
        *({"acc": 5.5}, ("final", {"acc": 5.5}), ("saved", 5, False)),
    ]  # fmt: skip
    before = len(reports(trial))
    there = str(trial.directory / "checkpoints" / "2")
    good(ran(trial, CLASS, "Net", NNI_RESUME_DIR=there, NNI_RESUME_STEP="4"))
    assert reports(trial)[before:] == [{"acc": 5.5}, ("final", {"acc": 5.5}), ("saved", 5, False)]


def test_a_class_saves_when_it_is_asked(trial: Trial) -> None:
    code = CLASS.replace("self.total += 1", "self.total += 1; open('.nni/save', 'w').close()")
    assert good(ran(trial, code, "Net")) == "clean\n"
    assert reports(trial) == [{"acc": 1.5}, ("saved", 1, True)]


def test_a_class_without_setup_gets_its_parameters_and_says_when_it_is_done(trial: Trial) -> None:
    code = (
        "class Net:\n    def __init__(self, p):\n        self.n = p['x']\n"
        "    def step(self):\n        self.n += 1\n        return {'acc': self.n, 'done': self.n > 2}\n"
    )
    good(ran(trial, code, "Net"))
    assert reports(trial) == [{"acc": 1.5}, {"acc": 2.5}, ("final", {"acc": 2.5})]


def test_a_class_needs_nothing_but_a_step(trial: Trial) -> None:
    good(ran(trial, "class Net:\n    steps = 2\n    def step(self):\n        return 1.0\n", "Net"))
    assert reports(trial) == [1.0, 1.0, ("final", 1.0)]


def test_the_constructor_may_be_new_or_inherited(trial: Trial) -> None:
    code = (
        "class Base:\n    def __new__(cls, p):\n        made = super().__new__(cls)\n"
        "        made.x = p['x']\n        return made\n"
        "class Net(Base):\n    steps = 1\n    def step(self):\n        return self.x\n"
    )
    good(ran(trial, code, "Net"))
    assert reports(trial) == [0.5, ("final", 0.5)]


def test_a_class_must_have_a_step(trial: Trial) -> None:
    done = ran(trial, "class Net:\n    pass\n", "Net")
    assert done.returncode == 1
    assert done.stderr == "nni.run: the class Net of mine.py has no method 'step'.\n"


def test_a_step_must_return_a_result(trial: Trial) -> None:
    done = ran(trial, "class Net:\n    def setup(self, p): pass\n    def step(self): pass\n", "Net")
    assert done.returncode == 1
    assert done.stderr.endswith("TypeError: step() must return a number or a dict of metrics, not None\n")


# ---- machines without nnimgr ------------------------------------------------------------------------------

SCRIPT = """
from nnimgr import space, tune
SPACE = {"x": space.uniform(0, 1)}

def train(p):
    return p["x"]
"""


def alone(tmp_path: Path, python: str, code: str) -> Any:
    """Run a trial with a Python that has no nnimgr: the keeper has written the trial API beside the trial."""
    trial = Trial(tmp_path, python)
    lay_down(str(tmp_path))
    (tmp_path / "mine.py").write_text(code)
    return subprocess.run(
        [python, "-S", "-m", "nni.run", "mine.py:train"],
        env=trial.environ(PYTHONPATH=str(tmp_path)),
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("python", PYTHONS)
def test_a_script_that_imports_nnimgr_runs_without_it(tmp_path: Path, python: str) -> None:
    assert good(alone(tmp_path, python, SCRIPT)) == ""
    assert b'"FINAL"' in (tmp_path / ".nni" / "metrics").read_bytes()


@pytest.mark.parametrize("python", PYTHONS)
def test_a_script_without_a_guard_is_told_so(tmp_path: Path, python: str) -> None:
    done = alone(tmp_path, python, SCRIPT + "\ntune(train, SPACE, maximize=True, trials=3)\n")
    assert done.returncode == 1 and "tune() is called when a trial imports this file" in done.stderr


def test_the_object_trial_works_outside_an_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    trial = nni_run.Trial({"x": 1})
    for step in trial.steps(2):
        trial.report(step, save={"step": step})
    assert (trial.parameters, trial.id, trial.number) == ({"x": 1}, "STANDALONE", 0)
    assert capsys.readouterr().out.count("Intermediate result: ") == 2
