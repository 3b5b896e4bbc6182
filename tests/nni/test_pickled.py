"""Functions and classes that a trial gets by value, in processes like those of trials."""

from __future__ import annotations

import json
import linecache
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nnimgr.python.pickling import pickled
from tests.nni.test_run import reports, trial
from tests.nni.test_trial import Trial
from tests.trial_keeper.harness import oldest_python

__all__ = ["trial"]  # the fixture: a trial for each of the interpreters

OLD = oldest_python()


def ran(trial: Trial, file: str, **environ: str) -> Any:
    return subprocess.run(
        [trial.python, "-m", "nni.run", file],
        env=trial.environ(**environ), cwd=trial.directory, capture_output=True, text=True, check=False,
    )  # fmt: skip


def here(tmp_path: Path) -> Trial:
    (tmp_path / "attempt").mkdir()
    return Trial(tmp_path / "attempt")


def test_a_function_runs_where_cloudpickle_is_not_installed(trial: Trial) -> None:
    """The pickle is made by the trial's own interpreter, which has only the files beside the pickle."""
    pickled(lambda p: 0.0).write(trial.directory)
    (library,) = trial.directory.glob("cloudpickle-*")
    code = (
        "import sys, json, platform\nfolder, library = sys.argv[1:]\n"
        "sys.path.insert(0, folder + '/' + library)\n"
        "import cloudpickle\nfactor = 3\n"
        "def train(p, trial):\n    trial.report(p['x'])\n    return p['x'] * factor\n"
        "header = dict(name='train', python=platform.python_version(), cloudpickle=library)\n"
        "header.update(libraries={}, sources={})\n"
        "with open(folder + '/train.pickle', 'wb') as file:\n"
        "    file.write(json.dumps(header).encode() + b'\\n' + cloudpickle.dumps(train))\n"
    )
    command = [trial.python, "-S", "-E", "-c", code, str(trial.directory), library.name]
    subprocess.run(command, check=True)
    done = ran(trial, "train.pickle")
    assert (done.returncode, done.stderr) == (0, "")
    assert reports(trial) == [0.5, ("final", 1.5)]


@pytest.mark.skipif(OLD is None, reason="there is no Python 3.8")
def test_another_python_is_refused_with_both_versions(tmp_path: Path) -> None:
    trial = here(tmp_path)
    assert OLD is not None
    trial.python = OLD
    pickled(lambda p: 0.0).write(trial.directory)
    done = ran(trial, "lambda.pickle")
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"nni.run: lambda was pickled with other versions: Python {platform.python_version()} there, and 3.8."
    )
    assert 'leave out ship="pickle"' in done.stderr and "Traceback" not in done.stderr


def test_other_libraries_are_refused_with_both_versions(tmp_path: Path) -> None:
    import numpy

    trial = here(tmp_path)
    made = pickled(lambda p: float(numpy.abs(-p["x"])))
    assert made.header["libraries"] == {"numpy": numpy.__version__}
    libraries = {"numpy": "1.0.1", "nowhere-to-be-found": "2.3"}
    made._replace(header={**made.header, "libraries": libraries}).write(trial.directory)
    done = ran(trial, made.file)
    assert done.returncode == 1
    assert (
        f"numpy 1.0.1 there, and {numpy.__version__} here; "
        "nowhere-to-be-found 2.3 there, and not installed here." in done.stderr
    )


def test_a_traceback_shows_the_users_lines_and_no_others(tmp_path: Path) -> None:
    trial = here(tmp_path)

    def fails(p: Any) -> None:
        raise ValueError("no good")  # this line

    pickled(fails).write(trial.directory)
    done = ran(trial, "fails.pickle")
    assert done.returncode == 1
    assert 'raise ValueError("no good")  # this line' in done.stderr and "_running.py" not in done.stderr


def test_a_traceback_shows_the_cells_of_classes_and_helpers(tmp_path: Path) -> None:
    """The functions are those of two cells of a notebook, which the trial cannot read."""
    trial = here(tmp_path)
    cells = {
        "/tmp/ipykernel_7/1.py": "def checked(value):\n    raise ValueError(value)  # in the helper\n",
        "/tmp/ipykernel_7/2.py": "class Net:\n    def step(self):\n        return checked('no good')\n",
    }
    names: dict[str, Any] = {"__name__": "__main__"}
    for file, text in cells.items():
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        exec(compile(text, file, "exec"), names)
    pickled(names["Net"]).write(trial.directory)
    for file in cells:
        del linecache.cache[file]
    done = ran(trial, "Net.pickle")
    assert done.returncode == 1
    lines = [line.strip() for line in done.stderr.splitlines() if "^" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        'File "/tmp/ipykernel_7/2.py", line 3, in step',
        "return checked('no good')",
        'File "/tmp/ipykernel_7/1.py", line 2, in checked',
        "raise ValueError(value)  # in the helper",
        "ValueError: no good",
    ]


def test_the_file_is_a_line_of_json_and_the_pickle(tmp_path: Path) -> None:
    made = pickled(lambda p: 0.0)
    for _ in range(2):
        made.write(tmp_path / "function")
    head, _, content = (tmp_path / "function" / "lambda.pickle").read_bytes().partition(b"\n")
    assert json.loads(head) == made.header and content == made.content
    names = sorted(path.name for path in (tmp_path / "function").iterdir())
    assert names == [made.header["cloudpickle"], "lambda.pickle"]
    assert made.header["python"] == ".".join(map(str, sys.version_info[:3]))
