"""Tests of measuring the CPU time and the memory of a machine, a container and a trial."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trial_keeper.harness import wait_for
from trial_keeper.machine import usage

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a folder like /proc of a machine that has used 5 s, and 1000 MiB."""
    found = tmp_path / "proc"
    (found / "self").mkdir(parents=True)
    (found / "self" / "cgroup").write_text("0::/pod\n")
    fields = [2 * TICKS, TICKS, TICKS, 900, 800, 0, TICKS, 0, 7, 7]
    (found / "stat").write_text(f"cpu  {' '.join(map(str, fields))}\ncpu0 1 2 3\n")
    (found / "meminfo").write_text("MemTotal: 2048000 kB\nMemFree: 1 kB\nMemAvailable: 1024000 kB\n")
    return found


def test_a_machine_is_measured_as_a_whole(proc: Path, tmp_path: Path) -> None:
    assert usage.MachineUsage(str(proc), str(tmp_path / "none")).read() == (5.0, 1000)


def test_a_container_is_measured_by_its_control_group(proc: Path, tmp_path: Path) -> None:
    pod = tmp_path / "cgroup" / "pod"
    pod.mkdir(parents=True)
    for name, content in {
        "cpu.max": "50000 100000",
        "cpu.stat": "usage_usec 2500000\nuser_usec 2000000",
        "memory.max": str(1 << 30),
        "memory.current": str(300 << 20),
        "memory.stat": f"anon 1\ninactive_file {100 << 20}",
    }.items():
        (pod / name).write_text(f"{content}\n")
    assert usage.MachineUsage(str(proc), str(tmp_path / "cgroup")).read() == (2.5, 200)


def test_so_is_one_with_groups_of_version_1(proc: Path, tmp_path: Path) -> None:
    (proc / "self" / "cgroup").write_text("4:memory:/pod\n2:cpu,cpuacct:/pod\n")
    for name, content in {
        "cpu/pod/cpu.cfs_quota_us": "150000",
        "cpu/pod/cpuacct.usage": "1500000000",
        "memory/pod/memory.limit_in_bytes": str(1 << 30),
        "memory/pod/memory.usage_in_bytes": str(64 << 20),
    }.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    assert usage.MachineUsage(str(proc), str(tmp_path / "cgroup")).read() == (1.5, 64)


def test_a_group_without_limits_is_a_part_of_its_machine(proc: Path, tmp_path: Path) -> None:
    pod = tmp_path / "cgroup" / "pod"
    pod.mkdir(parents=True)
    (pod / "cpu.max").write_text("max 100000\n")
    (pod / "memory.max").write_text("max\n")
    assert usage.MachineUsage(str(proc), str(tmp_path / "cgroup")).read() == (5.0, 1000)


def test_a_process_gets_older_from_its_start_on() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
    try:
        assert 0.0 <= usage.age_of(process.pid) <= usage.age_of(os.getpid())
    finally:
        process.kill()
        process.communicate()
    assert usage.age_of(process.pid) == 0.0


def test_a_trial_is_measured_with_all_its_descendants() -> None:
    inner = "held = bytearray(b'x' * (64 << 20)); print(flush=True); input()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        seconds, memory = usage.of_trial(process.pid)
        assert seconds > 0
        assert memory >= 64
        process.communicate("\n")
        assert wait_for(lambda: usage.of_trial(process.pid) == (0.0, 0), "the end of the process")
    finally:
        process.kill()
        process.wait()
