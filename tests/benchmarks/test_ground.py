"""The folder of a run, and the bare loop."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import proc
from benchmarks.ground import Ground, popen_loop


def test_nothing_is_left_of_a_run(tmp_path: Path) -> None:
    with Ground(tmp_path) as ground:
        assert ground.folder("one") != ground.folder("one")
        short = ground.short_folder()
        assert short.is_dir()
    assert list(tmp_path.iterdir()) == []
    assert not short.exists()


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_a_loop_runs_them_all(tmp_path: Path, concurrency: int) -> None:
    marks = tmp_path / "marks"
    loop = popen_loop(
        ["/bin/sh", "-c", f"echo x >> {marks}"], count=5, concurrency=concurrency, environ=os.environ
    )
    assert marks.read_text() == "x\n" * 5
    assert loop.per_s > 0


def test_a_loop_of_what_fails_says_so() -> None:
    with pytest.raises(RuntimeError, match="/bin/false"):
        popen_loop(["/bin/false"], count=1, concurrency=1)


def test_what_the_kernel_says_of_this_process() -> None:
    me = os.getpid()
    used = proc.cpu(me)
    assert used is not None and used.own > 0
    assert proc.run_ns(me) > 0
    most, now = proc.memory_kib(me, "VmHWM"), proc.memory_kib(me, "VmRSS")
    assert most > 0.9 * now > 0  # the kernel counts both with a delay
    assert proc.pss_kib(me) > 0
    assert proc.folder(me) == os.getcwd()


def test_there_is_no_keeper_where_none_serves(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no keeper serves"):
        proc.keepers(str(tmp_path))
