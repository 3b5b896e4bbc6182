"""The short form of the campaign against Slurm's controller."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.slurm.kill import campaign


@pytest.mark.kill
async def test_nothing_runs_twice_whenever_the_controller_is_killed(tmp_path: Path) -> None:
    tally = await campaign(
        tmp_path, pilots=4, together=4, seed=7, say=lambda line: sys.stderr.write(f"{line}\n")
    )
    assert (tally.pilots, tally.twice, tally.left) == (4, 0, 0)
