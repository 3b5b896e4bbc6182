"""Warnings of programs and scripts in ``trialCommand`` that do not exist."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.config.loading import Load

HEAD = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
goal: maximize
trialConcurrency: 1
maxTrialNumber: 1
tuner: {name: Random}
"""
LOCAL = HEAD + "trainingService: {platform: local}\n"
REMOTE = """\
trainingService:
  platform: remote
  reuseMode: false
  machineList: [{host: gpu1, user: me, password: secret}]
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH with the programs python3 and make."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("python3", "make"):
        (folder / name).write_text("")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("pyton3 trial.py", "there is no program \"pyton3\" on the PATH; did you mean 'python3'?"),
        ("A=1 B=$A pyton3 trial.py > log", 'there is no program "pyton3" on the PATH'),
        ("zzz --lr 1", 'there is no program "zzz" on the PATH'),
        (
            "python3 trail.py",
            "there is no file trail.py in trialCodeDirectory, {here}; did you mean 'trial.py'?",
        ),
        (
            "python3 -u src/modle.py && ls",
            "there is no file src/modle.py in trialCodeDirectory, {here}; did you ",
        ),
        ("/usr/bin/python3.11 trail.py", "there is no file trail.py"),
    ],
)
def test_a_typing_error_is_a_warning(load: Load, path: str, tmp_path: Path, command: str, told: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "model.py").touch()
    (warning,) = load(f"{LOCAL}trialCommand: {command}\n", PATH=path).warnings
    assert str(warning).startswith("exp.yml:7:1: trialCommand: " + told.format(here=tmp_path))


@pytest.mark.parametrize(
    "command",
    [
        "python3 trial.py --out $NNI_OUTPUT_DIR",
        "make all",
        "cd src && pyton3 trial.py",
        "export PATH=/opt/bin; pyton3 trial.py",
        "PATH=/opt/bin:$PATH pyton3 trial.py",
        "if true; then pyton3 trial.py; fi",
        "pyton3 trial.py || true",
        "$PYTHON trail.py",
        '"my python" trail.py',
        "./pyton3 trail.py",
        "train.py",
        "python3 -m package.module",
        "python3 -c 'import trail'",
        "python3 /srv/trail.py",
        "python3 $CODE/trail.py",
        "A='b c'",
        "A=1",
    ],
)
def test_what_may_be_right_is_no_warning(load: Load, path: str, command: str) -> None:
    assert not load(LOCAL + f"trialCommand: >-\n  {command}\n", PATH=path).warnings


def test_without_a_path_only_the_script_is_checked(load: Load) -> None:
    assert "PATH" not in str(load(LOCAL + "trialCommand: pyton3 trail.py\n").warnings)


def test_machines_over_ssh_have_programs_of_their_own(load: Load, path: str) -> None:
    assert not load(f"{HEAD}{REMOTE}trialCommand: pyton3 trial.py\n", PATH=path).warnings
    (warning,) = load(f"{HEAD}{REMOTE}trialCommand: python trail.py\n", PATH=path).warnings
    assert warning.nearest == "trial.py"


def test_training_services_that_share_a_command_share_the_warning(load: Load, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    services = """\
trainingService:
  - {platform: local, trialCommand: python3 lost.py}
  - {platform: remote, reuseMode: false, machineList: [{host: gpu1, user: me, password: secret}]}
  - {platform: remote, reuseMode: false, machineList: [{host: gpu2, user: me, password: secret}]}
"""
    found = load(f"{HEAD}{services}trialCommand: python3 trail.py\n", PATH=os.environ["PATH"]).warnings
    assert [warning.field for warning in found] == ["trainingService[0].trialCommand", "trialCommand"]


def test_roles_have_commands_of_their_own(load: Load, path: str) -> None:
    roles = "{a: {replicas: 1, command: make a}, b: {replicas: 1, command: make b}}"
    gang = f"gang: {{sameHost: true, roles: {roles}}}\n"
    assert not load(f"{LOCAL}trialCommand: pyton3 trail.py\n{gang}", PATH=path).warnings
