"""Tests of the keeper as a single file."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trial_keeper.harness import Host, oldest_python, wait_for
from trial_keeper import zipapp

TRIAL = """
import nni
value = nni.get_next_parameter()["x"]
nni.report_intermediate_result(value)
nni.report_final_result({"default": value})
open("where", "w").write(nni.__file__)
"""


def test_the_same_content_has_the_same_bytes_and_name(tmp_path: Path) -> None:
    first = zipapp.build(str(tmp_path))
    assert zipapp.build(str(tmp_path)) == first
    assert [path.name for path in tmp_path.iterdir()] == [os.path.basename(first)]
    assert zipapp.content() == Path(first).read_bytes()
    assert len(zipapp.content()) < 720_000  # a ConfigMap takes 1 MiB, in base64


@pytest.mark.parametrize(("python", "used"), [(sys.executable, ".pyc"), (oldest_python(), ".py")])
def test_compiled_it_is_what_this_python_runs_and_others_have_the_source(
    tmp_path: Path, python: str | None, used: str
) -> None:
    if python is None:
        pytest.skip("no Python 3.8 here")
    content = zipapp.content(compiled=True)
    assert len(content) < 720_000  # a ConfigMap takes 1 MiB, in base64
    archive = tmp_path / "keeper.pyz"
    archive.write_bytes(content)
    imported = "from trial_keeper.machine import procs; print(procs.__file__)"
    program = f"import sys; sys.path.insert(0, {str(archive)!r}); {imported}"
    # its bytes do not depend on what the process has loaded before
    again = "hashlib.sha256(zipapp.content(compiled=True)).hexdigest()"
    root = str(Path(zipapp.__file__).parents[1])
    found = f"import hashlib, ssl, sys; sys.path.insert(0, {root!r}); from trial_keeper import keeper, zipapp"
    made = _said(sys.executable, f"{found}; print({again})")
    assert made == hashlib.sha256(content).hexdigest()
    assert _said(python, program).endswith(f"/procs{used}")


def _said(python: str, program: str) -> str:
    command = [python, "-S", "-E", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_it_runs_trials_and_brings_them_the_trial_api(tmp_path: Path) -> None:
    here = Host(
        tmp_path / "experiment", python=oldest_python() or sys.executable, package=zipapp.build(str(tmp_path))
    )
    # an interpreter without nni: it must not see this interpreter's path and site-packages
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec {oldest_python() or sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    here.environ["PATH"] = f"{bare.parent}:{here.environ['PATH']}"
    here.environ.pop("PYTHONPATH", None)
    try:
        here.start()
        (here.directory / "trial.py").write_text(TRIAL)
        here.attempt(
            "e-a-1",
            "python3 trial.py; kill -USR1 $$",
            parameter='{"parameter_id": 4, "parameters": {"x": 0.5}}',
        )
        told = here.server.ended("e-a-1")
        begin = b'{"parameter_id": 4, "trial_job_id": "e-a-1", "type": '
        assert told.frames == [
            begin + b'"PERIODICAL", "sequence": 0, "value": "0.5"}\n',
            begin + b'"FINAL", "sequence": 0, "value": "{\\"default\\": 0.5}"}\n',
        ]
        assert told.final is not None and told.final["signal"] == signal.SIGUSR1
        assert (here.directory / "where").read_text() == str(here.keeper / "sdk" / "nni" / "__init__.py")
        wait_for(lambda: here.server.acked_cmd == 1, "the acknowledgement")
    finally:
        here.close()
