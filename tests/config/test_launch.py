"""The field ``preload``: modules that are imported once on each machine."""

from __future__ import annotations

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
