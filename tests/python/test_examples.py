"""The examples in Python run, and do what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from nnimgr import Run

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


def ran(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_function_is_tuned(port: int) -> None:
    said = ran("function.py")
    assert "The best parameters are {'learning_rate':" in said
    assert 1 <= said.count("  trial ") <= 3  # the assessor may stop all trials but one


def test_a_population_is_trained_and_not_started_twice(port: int) -> None:
    said = ran("checkpoints_and_pbt.py")
    assert "Checkpoints of the best trial: [" in said
    run = Run.attach("climbers")
    assert any(trial.legs for trial in run.trials)
    assert {trial.status for trial in run.trials} == {"SUCCEEDED"} and len(run.trials) == 6
    again = ran("checkpoints_and_pbt.py")
    assert said.splitlines()[-1] == again.splitlines()[-1]
    assert len(run.trials) == 6


def test_the_cells_of_the_notebook_run(port: int) -> None:
    cells = json.loads((EXAMPLES / "tune.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "{'angle': " in done.stdout
    run = Run.attach("notebook")
    assert run.status == "DONE" and len(run.trials) == 12


def test_the_first_program_of_the_tutorial_runs(folder: Path, port: int) -> None:
    page = EXAMPLES.parents[1] / "docs" / "tutorials" / "python-in-ten-minutes.md"
    code = page.read_text().split("```python\n")[1].partition("```")[0]
    (folder / "train.py").write_text(code)
    done = subprocess.run([sys.executable, "train.py"], capture_output=True, text=True, check=True)
    assert "'layers': " in done.stdout.splitlines()[-1]


def test_trials_are_asked_for_and_told(port: int) -> None:
    said = ran("ask_tell.py")
    assert "The best of 49 throws misses by " in said
    assert Run.attach("throws").status == "STOPPED"
