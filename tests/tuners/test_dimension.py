"""Values as codes, and codes as values."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from nnimgr import search_space as spaces
from nnimgr.search_space import Choice, Nested, Numeric
from nnimgr.tuners.dimension import SPREAD, Categories, Number

KINDS: dict[str, list[Any]] = {
    "randint": [-3, 9],
    "uniform": [-5, 10],
    "quniform": [0.1, 2, 0.25],
    "loguniform": [1e-6, 10],
    "qloguniform": [0.2, 9, 0.5],
    "normal": [3, 2],
    "qnormal": [3, 2, 0.5],
    "lognormal": [0, 1],
    "qlognormal": [-1, 1, 0.5],
}


def number(kind: str, value: list[Any]) -> tuple[spaces.Space, Number]:
    space = spaces.parse({"x": {"_type": kind, "_value": value}})
    spec = space.parameters[0][1]
    assert isinstance(spec, Numeric)
    return space, Number(spec)


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_comes_back_from_its_code(kind: str) -> None:
    space, dimension = number(kind, KINDS[kind])
    rng = Random(0)
    for _ in range(200):
        value = spaces.sample(space, rng)["x"]
        found = dimension.decode(float(dimension.encode([value])[0]))
        assert type(found) is type(value)
        assert found == pytest.approx(value)


@pytest.mark.parametrize("kind", KINDS)
def test_codes_are_snapped_to_those_of_the_values_they_stand_for(kind: str) -> None:
    _, dimension = number(kind, KINDS[kind])
    codes = np.random.default_rng(0).random(200)
    values = [dimension.decode(code) for code in codes.tolist()]
    wanted = dimension.encode(values)
    if not dimension.stepped:
        assert wanted == pytest.approx(codes)
        return
    snapped = dimension.snapped(codes)
    assert snapped == pytest.approx(wanted)
    reaches = np.broadcast_to(dimension.reaches(snapped), codes.shape)
    # Leave out values at the bounds, which may be clipped, and zeros, which may be rounded.
    inside = (codes > 0.1) & (codes < 0.9) & ~((np.array(values) == 0) & kind.startswith("qlog"))
    assert (np.abs(snapped - codes) <= reaches + 1e-9)[inside].all()


@pytest.mark.parametrize("kind", KINDS)
def test_codes_have_the_mean_and_the_spread_of_even_numbers(kind: str) -> None:
    space, dimension = number(kind, KINDS[kind])
    rng = Random(1)
    codes = dimension.encode([spaces.sample(space, rng)["x"] for _ in range(4000)])
    if kind != "qlognormal":  # half of its values are rounded to 0
        assert np.mean(codes) == pytest.approx(0.5, abs=0.05)
        assert np.std(codes) == pytest.approx(SPREAD, rel=0.1)
    assert dimension.bounded == (codes.min() >= 0 and codes.max() <= 1)


@pytest.mark.parametrize("value", [-5.1, 10.1, True, None, "3", [1], math.nan, math.inf, 10**400])
def test_what_lies_outside_has_no_code(value: Any) -> None:
    for kind in ("uniform", "randint"):
        codes = number(kind, [-5, 10])[1].encode([value, 3])
        assert math.isnan(codes[0]) and not math.isnan(codes[1])


def test_options_are_known_by_their_json() -> None:
    dimension = Categories(Choice(("a", 1, True, None, [1, 2], {"b": 3}, "a")))
    assert dimension.encode(["a", 1.0, True, None, [1, 2], {"b": 3}]).tolist() == [0, 1, 2, 3, 4, 5]
    assert math.isnan(dimension.encode(["c"])[0])


def test_nested_options_are_known_by_their_names() -> None:
    dimension = Categories(Nested((("a", spaces.Space(())), (2, spaces.Space(())))))
    assert dimension.encode([{"_name": name, "x": 1} for name in ("a", 2)]).tolist() == [0, 1]
    assert np.isnan(dimension.encode([{"_name": "b"}, {}, "a", None])).all()
