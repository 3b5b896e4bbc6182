"""Tests of the capacity that a keeper reports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import nnimgr
import trial_keeper
from trial_keeper.machine.capacity import capacity


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


def test_a_batch_system_says_how_many_cpus_a_job_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for cpus in (1.0, 4096.0):
        monkeypatch.setenv("NNIMGR_HOST_CPUS", str(int(cpus)))
        assert capacity("/")["cpus"] == cpus


def test_the_keeper_has_the_version_of_the_whole() -> None:
    assert nnimgr.__version__ == trial_keeper.VERSION


def test_so_do_groups_of_version_1_as_a_container_sees_them(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal:       16384000 kB\n")
    (proc / "self" / "cgroup").write_text("4:memory:/outside/pod\n2:cpu,cpuacct:/outside/pod\n0::/outside\n")
    for name, content in {
        "memory/memory.limit_in_bytes": "268435456",
        "cpu/cpu.cfs_quota_us": "150000",
        "cpu/cpu.cfs_period_us": "100000",
    }.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(f"{content}\n")
    found = capacity("/", str(proc), str(groups))
    assert found["memory"] == 256
    assert found["cpus"] == min(1.5, len(os.sched_getaffinity(0)))
    (groups / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (groups / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    found = capacity("/", str(proc), str(groups))
    assert (found["memory"], found["cpus"]) == (16000, len(os.sched_getaffinity(0)))
