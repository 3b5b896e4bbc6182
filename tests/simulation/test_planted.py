"""The simulator notices when a rule is taken away: every planted bug breaks a promise within 400 seeds."""

from __future__ import annotations

import pytest

from tests.simulation.kernel import Violation
from tests.simulation.planted import PLANTED
from tests.simulation.world import World

SEEDS = 400


def breaks(seed: int) -> bool:
    try:
        World(seed).run()
    except Violation:
        return True
    return False


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    with PLANTED[bug]():
        assert any(map(breaks, range(SEEDS)))
