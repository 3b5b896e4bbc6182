"""The number at one rank among growing numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from nnimgr.assessors.order import Place


@pytest.mark.parametrize(
    "rank",
    [lambda n: n // 2 + 1, lambda n: math.floor(0.25 * (n - 1)) + 1, lambda n: 1, lambda n: n],
    ids=["middle", "quarter", "first", "last"],
)
def test_it_is_that_of_the_sorted_numbers(rank: Callable[[int], int]) -> None:
    draw = Random(7)
    place, numbers = Place(rank), list[float]()
    for _ in range(300):
        number = draw.choice([draw.random(), float(draw.randint(0, 3))])
        place.add(number)
        numbers = sorted([*numbers, number])
        at = rank(len(numbers)) - 1
        assert len(place) == len(numbers)
        assert (place.number, place.next) == (numbers[at], numbers[min(at + 1, len(numbers) - 1)])


def test_of_no_numbers_there_is_none() -> None:
    assert not Place(lambda n: 1)
    with pytest.raises(IndexError):
        _ = Place(lambda n: 1).number
