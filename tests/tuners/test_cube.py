"""Arrays of points: they agree with the encoding of single points, and vary as intended."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nnimgr import search_space
from nnimgr.tuners.cube import Cube, distances
from nnimgr.tuners.points import calm
from tests.test_search_space import CALM, raw_spaces
from tests.tuners.test_tpe import MIXED

UNIT = {"_type": "uniform", "_value": [0, 1]}


def cube(raw: Any) -> Cube:
    return Cube(search_space.parse(raw))


@settings(CALM, max_examples=80)
@given(raw_spaces(), st.integers(0, 2**32))
def test_arrays_of_points_agree_with_single_ones(raw: Any, seed: int) -> None:
    space, rng = cube(raw), np.random.default_rng(seed)
    points = space.drawn(5, rng)
    for point, active in zip(points, space.active_in(points), strict=True):
        assert (space.active(point) == active).all()
        integers = [not column.options and (column.steps or 1000) < 1000 for column in space.columns]
        assert np.abs(space.snapped(point) - point)[integers].max(initial=0) < 1e-9
    again = space.settled(space.from_one_hot(space.one_hot(points)))
    assert np.abs(again - points).max(initial=0) < 1e-12


def test_a_neighbour_differs_and_lies_in_the_cube() -> None:
    space, rng = cube(MIXED), np.random.default_rng(0)
    points = space.drawn(300, rng)
    found = space.varied(points, 0.1, rng)
    assert ((found >= 0) & (found <= 1)).all()
    assert np.abs(found - space.settled(found)).max() == 0
    assert (np.abs(found - points).max(axis=1) > 0).mean() > 0.7  # a choice may be drawn with its old option
    assert np.median(np.abs(found - points)[:, 0][found[:, 0] != points[:, 0]]) < 0.2


def test_what_becomes_active_is_drawn() -> None:
    raw = {"c": {"_type": "choice", "_value": [{"_name": "a"}, {"_name": "b", "x": UNIT}]}}
    space, rng = cube(raw), np.random.default_rng(0)
    points = np.full((200, 2), [0.25, 0.5])  # option a
    found = space.varied(points, 0.01, rng)
    awake = found[:, 0] > 0.5
    assert 50 < awake.sum() < 150
    assert np.std(found[awake, 1]) > 0.2
    assert (found[~awake, 1] == 0.5).all()


def test_an_integer_moves_by_one_step_at_least() -> None:
    space, rng = cube({"n": {"_type": "randint", "_value": [0, 10]}}), np.random.default_rng(0)
    found = space.varied(np.full((100, 1), 0.55), 1e-6, rng)
    assert {round(x, 2) for x in found[:, 0].tolist()} == {0.45, 0.65}


def test_points_lie_apart_by_more_than_half_of_what_random_ones_do() -> None:
    space, rng = cube({f"x{n}": UNIT for n in range(3)}), np.random.default_rng(1)
    smallest = []
    for _ in range(200):
        points = space.drawn(16, rng)
        smallest.append(distances(points, points)[np.triu_indices(16, 1)].min())
    assert 0.5 < space.apart / np.median(smallest) < 0.7
    near, pending = np.full((1, 3), 0.5), np.full((15, 3), 0.5 + space.apart / 2)
    assert not space.spread(near, pending).any()
    assert space.spread(near, pending[:2]).all()
    assert space.spread(near, pending[:0]).all()


@given(arrays.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1.7e308, 1.7e308)))
def test_losses_become_calm_and_keep_their_order(losses: Any) -> None:
    found = calm(losses)
    assert np.isfinite(found).all() and np.abs(found).max() < 1000
    order = np.argsort(losses, kind="stable")
    assert (np.diff(found[order]) >= 0).all()


def test_calm_losses_are_of_the_same_size_whatever_their_unit() -> None:
    losses = np.array([1.0, 2.0, 3.0, 4.0, 1000.0])
    assert np.allclose(calm(losses), calm(losses * 1e-6 + 5))
    assert calm(losses)[2] == 0 and calm(np.full(3, 7.0)).tolist() == [0, 0, 0]
