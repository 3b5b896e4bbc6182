"""The short form of the kill test: ten kills of each kind."""

from __future__ import annotations

import sys

import pytest

from tests.e2e.kill import campaign


@pytest.mark.kill
def test_nothing_is_lost_whoever_is_killed() -> None:
    wanted = {"server": 10, "keeper": 10, "dispatcher": 10, "zygote": 10, "all": 10}
    tally = campaign(wanted, seed=7, say=lambda line: sys.stderr.write(line + "\n"))
    assert all(tally.kills[kind] >= number for kind, number in wanted.items())
    assert tally.metrics == 20 * tally.attempts > 0
