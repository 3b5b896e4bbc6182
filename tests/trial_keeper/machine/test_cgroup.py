"""Tests of memory limits and OOM counts from control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trial_keeper.machine import cgroup


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "groups" / "memory").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("lines", "name", "content", "limit"),
    [
        ("0::/\n", "memory.max", "max", None),
        ("0::/\n", "memory.max", "268435456", 256 << 20),
        ("4:memory:/a/b\n", "memory/memory.limit_in_bytes", "9223372036854771712", None),
        ("4:memory:/a/b\n", "memory/memory.limit_in_bytes", "268435456", 256 << 20),
        ("4:cpu:/a/b\n", "memory/memory.limit_in_bytes", "268435456", None),
    ],
)
def test_the_limit(groups: Path, lines: str, name: str, content: str, limit: int | None) -> None:
    (groups / "proc" / "self" / "cgroup").write_text(lines)
    (groups / "groups" / name).write_text(f"{content}\n")
    assert cgroup.memory_limit(str(groups / "proc"), str(groups / "groups")) == limit


def test_the_innermost_group_comes_first(groups: Path) -> None:
    (groups / "proc" / "self" / "cgroup").write_text("4:memory:/a/b:c\n0::/d\n")
    assert list(cgroup.folders("memory", str(groups / "proc"), "/g")) == [
        "/g/memory/a/b:c", "/g/memory/a", "/g/memory", "/g/d", "/g",
    ]  # fmt: skip
    assert list(cgroup.folders("memory", str(groups / "nothing"), "/g")) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("low 0\nhigh 0\nmax 4\noom 3\noom_kill 2\noom_group_kill 1\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", 5),
        ("", 0),
    ],
)
def test_what_was_killed_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, number: int
) -> None:
    (tmp_path / "events").write_text(text)
    monkeypatch.setattr(cgroup, "_events", [os.fspath(tmp_path / "events")])
    assert cgroup.oom_kills() == number
    (tmp_path / "events").unlink()
    assert cgroup.oom_kills() == 0
