"""``nnictl doctor --nni``: what differs from NNI, and whether the file can be run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from nnimgr.home import Home

CONFIG = """\
searchSpace:
  x: {_type: uniform, _value: [0, 1]}
trialCommand: ./run
trialConcurrency: 2
goal: maximize
failFast: false
tuner: {name: GridSearch}
trainingService: {platform: local}
"""


def compare(home: Home, text: str, *options: str) -> int:
    Path("exp.yml").write_text(text)
    return main(["doctor", "--nni", "--config", "exp.yml", *options])


def test_differences_of_a_file_that_runs(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    text = CONFIG.replace("goal: maximize\n", "").replace("GridSearch", "TPE")
    assert compare(home, text) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert printed.err == ""
    assert [line.split(": NNI ")[0] for line in lines[:-2]] == [
        "exp.yml:1: goal (not given)",
        "exp.yml:3: trialCommand",
        "exp.yml:6: tuner.name",
        "exp.yml:6: tuner.name",
    ]
    assert lines[-2] == (
        "4 differences from NNI 3.0, 1 of them with something to change or decide. "
        "All differences: docs/reference/nni.md"
    )
    assert lines[-1] == "nnimgr can run this file: nnictl create --config exp.yml"
    assert not home.path.exists()


def test_errors_are_those_of_a_dry_run(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    text = CONFIG.replace("GridSearch", "PPO") + "useAnnotation: true\n"
    assert compare(home, text) == 1
    printed = capsys.readouterr()
    assert main(["create", "--dry-run", "--config", "exp.yml"]) == 1
    assert printed.err == capsys.readouterr().err
    assert "ERROR: exp.yml:7:" in printed.err
    assert "ERROR: exp.yml:9:" in printed.err
    assert "exp.yml:7: tuner.name: NNI has this tuner; nnimgr does not have this tuner" in printed.out
    assert "can run" not in printed.out


def test_a_file_that_cannot_be_read(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(home, "a: [\n") == 1
    assert "ERROR: exp.yml:2:1: not YAML" in capsys.readouterr().err


def test_differences_as_json(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(home, CONFIG, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": "exp.yml",
        "format": "v2",
        "runs": True,
        "differences": [
            {
                "file": "exp.yml",
                "line": 3,
                "field": "trialCommand",
                "nni": "writes what a trial prints to trial.log, and leaves stdout empty",
                "nnimgr": "writes what a trial prints to stdout, unchanged",
                "todo": "nothing, unless a script reads trial.log",
                "needsWork": False,
            }
        ],
    }


def test_errors_as_json(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(home, CONFIG + "trialConcurency: 1\n", "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] is False
    assert [problem["line"] for problem in told["error"]["problems"]] == [9]
    assert len(told["differences"]) == 1
