"""Search spaces as unit cubes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from nnimgr import search_space as spaces
from nnimgr.tuners.encoding import Encoding

EVERYTHING: dict[str, Any] = {
    "c": {"_type": "choice", "_value": ["a", 1, True, None, [1, 2], {"k": 1}]},
    "r": {"_type": "randint", "_value": [-2, 5]},
    "u": {"_type": "uniform", "_value": [-1, 3]},
    "qu": {"_type": "quniform", "_value": [0.1, 1, 0.25]},
    "n": {
        "_type": "choice",
        "_value": [
            {
                "_name": "deep",
                "in": {
                    "_type": "choice",
                    "_value": [{"_name": 1}, {"_name": 2, "z": {"_type": "uniform", "_value": [0, 1]}}],
                },
            },
            {"_name": "flat"},
            {
                "_name": "wide",
                "x": {"_type": "normal", "_value": [3, 2]},
                "y": {"_type": "randint", "_value": [0, 3]},
            },
        ],
    },
    "lu": {"_type": "loguniform", "_value": [1e-5, 10]},
    "qlu": {"_type": "qloguniform", "_value": [0.5, 100, 2]},
    "no": {"_type": "normal", "_value": [5, 0.5]},
    "qno": {"_type": "qnormal", "_value": [0, 10, 3]},
    "ln": {"_type": "lognormal", "_value": [0, 1]},
    "qln": {"_type": "qlognormal", "_value": [1, 1, 0.5]},
}
SPACE = spaces.parse(EVERYTHING)


def test_what_is_drawn_from_the_space_comes_back_from_its_point() -> None:
    encoding = Encoding(SPACE)
    for seed in range(300):
        parameters = spaces.sample(SPACE, Random(seed))
        point = encoding.encode(parameters)
        assert point is not None and point.shape == (encoding.width,)
        assert 0 <= point.min() and point.max() <= 1
        back = encoding.decode(point)
        assert list(back) == list(parameters) and spaces.contains(SPACE, back) == []
        again = encoding.encode(back)
        assert again is not None
        np.testing.assert_allclose(again, point, atol=1e-9)
        for name in ("c", "r", "qu", "qlu", "qno", "qln"):
            assert back[name] == parameters[name] and type(back[name]) is type(parameters[name])


def test_every_point_of_the_cube_is_a_parameter_set() -> None:
    encoding, rng = Encoding(SPACE), np.random.default_rng(0)
    ends = [np.zeros(encoding.width), np.ones(encoding.width), np.full(encoding.width, 7.0)]
    for point in [*ends, *rng.random((300, encoding.width))]:
        assert spaces.contains(SPACE, encoding.decode(point)) == []


def test_columns_of_options_that_were_not_chosen_are_inactive() -> None:
    encoding = Encoding(SPACE)
    names = [column.name for column in encoding.columns]
    assert names[4:10] == ["n", "n.in", "n.in.z", "n.x", "n.y", "lu"]
    parameters = spaces.sample(SPACE, Random(1)) | {"n": {"_name": "deep", "in": {"_name": 1}}}
    point = encoding.encode(parameters)
    assert point is not None
    active = dict(zip(names, encoding.active(point).tolist(), strict=True))
    assert [name for name, is_active in active.items() if not is_active] == ["n.in.z", "n.x", "n.y"]
    assert point[names.index("n.x")] == 0.5
    moved = point.copy()
    moved[names.index("n.x")] = 0.9
    np.testing.assert_array_equal(encoding.snapped(moved), encoding.snapped(point))


@pytest.mark.parametrize(
    "change",
    [
        {"r": 5},
        {"r": 1.5},
        {"r": True},
        {"u": 3.1},
        {"c": "b"},
        {"n": {"_name": "x"}},
        {"n": "flat"},
        {"lu": 0},
    ],
)
def test_what_lies_outside_has_no_point(change: dict[str, Any]) -> None:
    encoding, inside = Encoding(SPACE), spaces.sample(SPACE, Random(0))
    assert encoding.encode(inside | change) is None
    assert encoding.encode({"r": 1}) is None and encoding.encode([1]) is None


def test_options_are_as_far_apart_as_the_ends_of_a_number() -> None:
    space = {"c": {"_type": "choice", "_value": ["a", "b", "c"]}, "u": {"_type": "uniform", "_value": [0, 1]}}
    encoding = Encoding(spaces.parse(space))
    points = np.array(
        [encoding.encode({"c": c, "u": u}) for c, u in (("a", 0), ("b", 0), ("c", 0), ("a", 1))]
    )
    hot = encoding.one_hot(points)
    assert hot.shape == (4, 4)
    distances = np.linalg.norm(hot[0] - hot[1:], axis=1)
    np.testing.assert_allclose(distances, 1.0)
    assert Encoding(spaces.Space(())).one_hot(np.empty((2, 0))).shape == (2, 0)
