"""Commands of a batch system on a login node."""

from __future__ import annotations

from pathlib import Path

import pytest

from trial_keeper import batch_commands


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def put(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_a_command_gets_its_input_and_its_outcome_is_told(commands: Path) -> None:
    put(commands, "sbatch", 'echo "$@"; cat; echo wrong >&2; exit 3')
    answer = batch_commands.run(["sbatch", "--parsable"], "script\n", 10.0)
    assert answer == {"code": 3, "output": "--parsable\nscript\n", "errors": "wrong\n"}


def test_only_commands_of_a_batch_system_run(commands: Path) -> None:
    with pytest.raises(ValueError, match="'sh' is not a command of a batch system"):
        batch_commands.run(["sh", "-c", "true"], "", 10.0)


def test_a_missing_or_slow_command_is_an_error(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as alone:
        alone.setenv("PATH", str(commands))  # this machine may have Slurm
        with pytest.raises(ValueError, match="there is no sacct here"):
            batch_commands.run(["sacct"], "", 10.0)
    put(commands, "squeue", "exec sleep 100")
    with pytest.raises(ValueError, match=r"squeue has not ended within 0\.1 s"):
        batch_commands.run(["squeue"], "", 0.1)
