"""Tests of programs of other versions, which are removed if they are old and not running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from trial_keeper.machine.programs import KEPT, UNUSED_S, tidy


def made(folder: Path, name: str, *, unused_s: float) -> Path:
    path = folder / f"trial-keeper-{name}.pyz"
    path.write_text("import time; print(flush=True); time.sleep(60)")
    at = time.time() - unused_s
    os.utime(path, (at, at))
    return path


def test_what_is_old_and_does_not_run_goes(tmp_path: Path) -> None:
    own = made(tmp_path, "own", unused_s=9 * UNUSED_S)
    recent = [made(tmp_path, f"recent{number}", unused_s=number) for number in range(2 * KEPT)]
    old = [made(tmp_path, f"old{number}", unused_s=2 * UNUSED_S) for number in range(3)]
    other = tmp_path / "other"
    other.write_text("")
    os.utime(other, (0, 0))
    running = old.pop()
    with subprocess.Popen([sys.executable, str(running)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        tidy(str(own))
        process.kill()
    assert {path.name for path in tmp_path.iterdir()} == {
        path.name for path in (own, running, other, *recent)
    }
    tidy(str(own))
    assert not running.exists()


def test_the_last_few_stay_however_old(tmp_path: Path) -> None:
    paths = [made(tmp_path, f"{number}", unused_s=(2 + number) * UNUSED_S) for number in range(KEPT)]
    tidy(str(paths[-1]))
    assert all(path.exists() for path in paths)
