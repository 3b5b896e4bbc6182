"""The fields ``preload`` and ``resident``: modules and processes that trials share on each machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config.launch import preload_of
from tests.config.loading import Faults, Load
from training_services.base import Preload

CONFIG = """
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialConcurrency: 1
maxTrialNumber: 1
goal: maximize
tuner: {name: Random}
"""
LOCAL = CONFIG + "trainingService: {platform: local}\n"
FUNCTION = LOCAL + "trialCommand: /usr/bin/python3.11 -m nni.run 'my train.py:train'\n"


def test_the_function_is_found_in_the_command(load: Load) -> None:
    config = load(FUNCTION + "preload: [torch, torch.nn]\n").config
    assert preload_of(config.members[0]) == Preload(modules=("torch", "torch.nn"), target="my train.py:train")
    assert preload_of(load(FUNCTION).config.members[0]) is None


@pytest.mark.parametrize(
    "command", ["python3 train.py", "python3 -m nni.run a.py:f --lr 1", "env A=b python3 -m nni.run a.py:f"]
)
def test_another_command_is_refused(faults: Faults, command: str) -> None:
    (fault,) = faults(LOCAL + f"preload: [torch]\ntrialCommand: {command}\n")
    assert fault == (
        "exp.yml:8:1: preload: needs a Python function or class as the trial: trialCommand must be "
        f'"python3 -m nni.run FILE.py:NAME", and nothing else, not "{command}"'
    )


def test_what_is_no_module_is_refused(faults: Faults) -> None:
    (fault,) = faults(FUNCTION + "preload: [torch, ./mine.py]\n")
    assert fault == 'exp.yml:9:18: preload[1]: must be the name of a Python module, not "./mine.py"'


RESIDENT = LOCAL + "trialCommand: python3 -m nni.run net.py:Net\nresident: true\n"
NEEDS = "exp.yml:9:1: resident: needs a class with the methods step and reset as the trial, and "
MEND = ": write reset(self, parameters), or leave resident out"


@pytest.mark.parametrize(
    "source",
    [
        "class Net:\n    def step(self): ...\n    def reset(self, parameters): ...\n",
        "class Net(Base):\n    def step(self): ...\n",
        "@decorated\nclass Net:\n    def step(self): ...\n",
        "from other import Net\n",
        "syntax error\n",
        None,
    ],
)
def test_a_class_may_be_resident(load: Load, tmp_path: Path, source: str | None) -> None:
    if source is not None:
        (tmp_path / "net.py").write_text(source)
    config = load(RESIDENT + "preload: [torch]\n").config
    assert preload_of(config.members[0]) == Preload(modules=("torch",), target="net.py:Net", resident=True)
    assert config.canonical()["resident"] is True


@pytest.mark.parametrize(
    ("source", "lack"),
    [
        ("class Net:\n    def step(self): ...\n", "Net of net.py has no method reset"),
        ("def Net(parameters): ...\n", "Net of net.py is a function"),
    ],
)
def test_what_cannot_be_reset_is_refused(faults: Faults, tmp_path: Path, source: str, lack: str) -> None:
    (tmp_path / "net.py").write_text(source)
    assert faults(RESIDENT + "preload: [torch]\n") == [f"{NEEDS}{lack}{MEND}"]


def test_a_resident_class_needs_preload(faults: Faults) -> None:
    assert faults(RESIDENT) == [
        "exp.yml:9:1: resident: needs preload: give the modules to import, such as preload: [torch], or "
        "leave resident out"
    ]


def test_a_resident_class_needs_its_code_in_place(faults: Faults) -> None:
    remote = "trainingService: {platform: remote, machineList: [{host: a, user: b, password: c}]}\n"
    command = "trialCommand: python3 -m nni.run net.py:Net\n"
    assert faults(CONFIG + remote + command + "preload: [torch]\nresident: true\n") == [
        'exp.yml:10:1: resident: cannot be used on the platform "remote", where each trial has its own copy '
        "of the code: leave resident out"
    ]


def test_a_resident_class_that_is_false_changes_nothing(load: Load) -> None:
    config = load(FUNCTION + "preload: [torch]\nresident: false\n").config
    assert preload_of(config.members[0]) == Preload(modules=("torch",), target="my train.py:train")
