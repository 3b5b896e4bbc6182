"""The short form of the kill test for gangs."""

from __future__ import annotations

import os
import sys

import pytest

from tests.e2e.gang_kill import campaign


@pytest.mark.kill
@pytest.mark.skipif(os.geteuid() != 0, reason="machines with networks of their own need root")
def test_no_gang_starts_twice_or_loses_a_metric_whoever_is_killed() -> None:
    tally = campaign(6, seed=5, say=lambda line: sys.stderr.write(line + "\n"))
    assert tally.gangs == 6 and tally.attempts >= 6
