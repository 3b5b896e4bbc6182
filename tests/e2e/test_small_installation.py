"""An installation without extras: no numerical library, no client of Kubernetes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKER = """
from importlib.machinery import PathFinder

EXTRAS = {"cmaes", "kubernetes", "numpy", "optuna", "scipy", "sklearn", "smac", "threadpoolctl"}
find = PathFinder.find_spec


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in EXTRAS else find(name, path, target)


PathFinder.find_spec = find_spec
"""
CONFIG = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: python3 -c "import nni; nni.report_final_result(nni.get_next_parameter()['x'])"
trialConcurrency: 2
maxTrialNumber: 3
goal: minimize
tuner: {name: Random}
assessor: {name: Medianstop}
trainingService: {platform: local}
"""
FAILING = """\
searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: exit 3
trialConcurrency: 2
maxTrialNumber: 10
goal: minimize
tuner: {name: Random}
trainingService: {platform: local}
"""


def nnictl(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose Python, and that of its server, finds none of the extras' libraries."""
    (folder / "blocked").mkdir(exist_ok=True)
    (folder / "blocked/sitecustomize.py").write_text(BLOCKER)
    python = Path(sys.executable).parent
    return subprocess.run(
        [sys.executable, "-m", "nnimgr.cli.main", *arguments],
        env={
            "HOME": str(folder),
            "NNIMGR_HOME": str(folder / "home"),
            "PATH": f"{python}:{os.environ['PATH']}",
            "PYTHONPATH": f"{folder / 'blocked'}:{ROOT}",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_an_experiment_runs_without_any_extra(tmp_path: Path) -> None:
    (tmp_path / "exp.yml").write_text(CONFIG)
    done = nnictl(tmp_path, "create", "--config", "exp.yml", "--foreground", "--port", str(free_port()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 SUCCEEDED" in done.stdout


def test_the_foreground_tells_why_trials_that_all_fail_have_ended_the_experiment(tmp_path: Path) -> None:
    """Its server leaves at the same moment."""
    (tmp_path / "exp.yml").write_text(FAILING)
    done = nnictl(tmp_path, "create", "--config", "exp.yml", "--foreground", "--port", str(free_port()))
    assert done.returncode == 1
    last = [line for line in done.stdout.splitlines() if "Experiment " in line][-1]
    assert "Experiment STOPPED: the first" in last and "all failed alike: exited with code 3" in last


@pytest.mark.parametrize("verb", [["create", "--dry-run"], ["create"], ["doctor"]], ids=" ".join)
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            CONFIG.replace("Random", "TPE"),
            "exp.yml:6:9: tuner.name: TPE needs numpy, which this Python does not have; install it with: "
            "pip install 'nnimgr[tuners]'",
        ),
        (
            CONFIG.replace("local", "kubernetes, image: lab"),
            "exp.yml:8:19: trainingService.platform: the platform needs the package kubernetes, which "
            "this Python does not have; install it with: pip install 'nnimgr[kubernetes]'",
        ),
    ],
    ids=["a tuner", "a platform"],
)
def test_what_needs_an_extra_is_refused_with_its_command(
    tmp_path: Path, verb: list[str], text: str, told: str
) -> None:
    (tmp_path / "exp.yml").write_text(text)
    refused = nnictl(tmp_path, *verb, "--config", "exp.yml")
    assert refused.returncode == 1
    assert told in refused.stderr
