"""Which machines connect to which in the check of ``nnictl doctor`` for trials on several machines."""

from __future__ import annotations

import pytest

from training_services.machines.pairs import ALL, NEIGHBOURS, peers_of


@pytest.mark.parametrize("count", [1, 2, 5, ALL])
def test_a_few_machines_are_all_checked_in_both_directions(count: int) -> None:
    found = {(number, other) for number in range(count) for other in peers_of(number, count)}
    assert found == {(one, other) for one in range(count) for other in range(count) if one != other}


def test_many_machines_are_checked_with_their_neighbours() -> None:
    assert list(peers_of(ALL, ALL + 1)) == list(range(NEIGHBOURS))
