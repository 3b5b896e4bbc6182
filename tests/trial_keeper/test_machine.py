"""What a keeper says of its machine."""

from __future__ import annotations

import os
from pathlib import Path

import nnimgr
import trial_keeper
from trial_keeper.machine import capacity


def test_this_machine_has_something() -> None:
    found = capacity("/")
    assert 0 < found["cpus"] <= len(os.sched_getaffinity(0))
    assert found["memory"] > 0 and found["disk"] >= 0


def test_what_a_control_group_allows_is_what_there_is(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal:       16384000 kB\nMemFree: 1 kB\n")
    (proc / "self" / "cgroup").write_text("0::/outer/inner\n")
    (groups / "outer" / "inner").mkdir(parents=True)
    assert capacity("/", str(proc), str(groups))["memory"] == 16000
    (groups / "outer" / "memory.max").write_text("1073741824\n")
    (groups / "outer" / "inner" / "memory.max").write_text("max\n")
    (groups / "outer" / "inner" / "cpu.max").write_text("50000 100000\n")
    found = capacity("/", str(proc), str(groups))
    assert (found["cpus"], found["memory"]) == (0.5, 1024)


def test_the_keeper_has_the_version_of_the_whole() -> None:
    assert nnimgr.__version__ == trial_keeper.VERSION
