"""Test of a host whose clock is set while a trial runs: the attempt's duration must not change."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.machines.machine import Unable, faketime
from tests.trial_keeper.harness import Host, wait_for
from trial_keeper.attempt import claim

DAY = 86_400


def _faketime() -> str | None:
    try:
        return faketime()
    except Unable:
        return None


@pytest.mark.skipif(_faketime() is None, reason="libfaketime is not installed")
@pytest.mark.parametrize("step", [2 * DAY, -2 * DAY], ids=["forward", "back"])
@pytest.mark.parametrize("killed", [False, True], ids=["exit", "shim-killed"])
def test_a_step_of_the_clock_is_no_part_of_the_duration(tmp_path: Path, step: int, killed: bool) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0")
    here = Host(tmp_path / "experiment")
    here.environ |= {
        "LD_PRELOAD": faketime(),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    try:
        here.start()
        here.attempt("e-a-1", f"touch up; read -r word < {gate}")
        wait_for((here.directory / "up").exists, "the trial")
        prefix = claim.prefix(str(here.keeper), "e-a-1")
        wait_for(lambda: getattr(claim.read(prefix), "started", None), "the word of its start")
        clock.write_text(f"{step:+d}")
        if killed:
            found = claim.read(prefix)
            assert found is not None and found.pid is not None
            os.kill(found.pid, signal.SIGKILL)
        else:
            gate.write_text("go\n")
        told = here.server.ended("e-a-1")
        assert told.started is not None and told.final is not None
        assert 0 <= told.final["at"] - told.started["at"] < DAY / 2
    finally:
        here.close()
