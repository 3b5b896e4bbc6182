"""Tests of the facts that a machine reports."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from trial_keeper.machine.facts import facts


def test_facts_of_this_machine(tmp_path: Path) -> None:
    found = facts(str(tmp_path / "home" / "nni-experiments"))
    assert found["executable"] == sys.executable
    assert found["trouble"] is None
    assert found["free_bytes"] > 0
    assert found["cpus"] == len(os.sched_getaffinity(0))
    assert abs(found["time"] - time.time()) < 60
    assert list((tmp_path / "home" / "nni-experiments").iterdir()) == []


def test_what_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert facts(str(tmp_path / "file" / "nni-experiments"))["trouble"] == "Not a directory"


def test_gpus_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert facts(str(tmp_path))["gpus"] == {"trouble": "there is no nvidia-smi on the PATH", "gpus": []}
