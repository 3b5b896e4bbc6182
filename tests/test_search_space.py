"""Search spaces: what is refused and why, what can be drawn, what lies inside."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nnimgr.search_space import (
    Choice,
    Nested,
    Numeric,
    ParameterType,
    SearchSpaceError,
    Space,
    contains,
    parse,
    sample,
    validate,
)

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # however slow the machine is

NUMBER = st.one_of(st.integers(-1000, 1000), st.floats(-1e3, 1e3, allow_nan=False))
POSITIVE = st.one_of(st.integers(1, 1000), st.floats(1e-3, 1e3))
OPTION = st.one_of(
    st.integers(), st.booleans(), st.none(), st.text(max_size=3), st.lists(st.integers(), max_size=2)
)


@st.composite
def specs(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    kind = draw(st.sampled_from([*ParameterType, *(["nested"] if depth else [])]))
    if kind == "nested":
        names = draw(st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=3, unique=True))
        options = [{"_name": name, **draw(raw_spaces(depth=depth - 1))} for name in names]
        return {"_type": "choice", "_value": options}
    if kind is ParameterType.CHOICE:
        return {"_type": "choice", "_value": draw(st.lists(OPTION, min_size=1, max_size=4))}
    if kind is ParameterType.RANDINT:
        low = draw(st.integers(-1000, 1000))
        return {"_type": "randint", "_value": [low, low + draw(st.integers(1, 1000))]}
    q = [draw(POSITIVE)] if kind.quantised else []
    if kind.gaussian:
        mu = draw(st.floats(-3, 3)) if kind.logarithmic else draw(NUMBER)
        return {"_type": kind.value, "_value": [mu, draw(st.floats(0.1, 3)), *q]}
    low_bound = draw(POSITIVE if kind.logarithmic else NUMBER)
    return {"_type": kind.value, "_value": [low_bound, low_bound + draw(POSITIVE), *q]}


def raw_spaces(depth: int = 2) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.text("xyz", min_size=1, max_size=2), specs(depth), max_size=3)


@CALM
@given(raw_spaces(), st.integers())
def test_what_is_drawn_lies_inside_in_the_order_of_the_space(raw: dict[str, Any], seed: int) -> None:
    space = parse(raw)
    drawn = sample(space, random.Random(seed))
    assert list(drawn) == list(raw)
    assert contains(space, drawn) == []
    assert drawn == sample(space, random.Random(seed))
    for name, spec in space.parameters:
        if isinstance(spec, Numeric):
            wanted = int if spec.type is ParameterType.RANDINT else float
            assert type(drawn[name]) is wanted and math.isfinite(drawn[name])
        elif isinstance(spec, Choice):
            assert any(drawn[name] is option for option in spec.options)


def test_options_are_kept_as_they_are_declared() -> None:
    options = [1, 1e-3, True, None, "adam", [1, 2], {"lr": 0.1}]
    space = parse({"o": {"_type": "choice", "_value": options}})
    rng = random.Random(0)
    drawn = [sample(space, rng)["o"] for _ in range(200)]
    assert {repr(value) for value in drawn} == {repr(option) for option in options}


def test_a_nested_choice_gives_only_the_parameters_of_its_option() -> None:
    space = parse(
        {
            "model": {
                "_type": "choice",
                "_value": [
                    {"_name": "none"},
                    {"_name": "svm", "c": {"_type": "loguniform", "_value": [0.1, 10]}},
                    {
                        "_name": "net",
                        "act": {"_type": "choice", "_value": [{"_name": "relu"}, {"_name": "tanh"}]},
                    },
                ],
            }
        }
    )
    assert isinstance(space.parameters[0][1], Nested)
    rng = random.Random(0)
    seen = {tuple(sample(space, rng)["model"]) for _ in range(100)}
    assert seen == {("_name",), ("_name", "c"), ("_name", "act")}


def test_quantised_values_round_half_to_even_and_stay_within_bounds() -> None:
    spec = Numeric(ParameterType.QUNIFORM, 0.7, 9.2, 2)
    assert [spec.quantise(x) for x in (1, 3, 5, 9.1, 0.7)] == [0.7, 4.0, 4.0, 9.2, 0.7]
    unbounded = Numeric(ParameterType.QNORMAL, 0.0, 1.0, 0.5)
    assert unbounded.quantise(-7.8) == -8.0


def test_the_formulas_of_the_distributions() -> None:
    def draws(kind: str, *value: float) -> list[float]:
        space = parse({"x": {"_type": kind, "_value": list(value)}})
        rng = random.Random(1)
        return sorted(sample(space, rng)["x"] for _ in range(2000))

    def median(values: list[float]) -> float:
        return values[len(values) // 2]

    assert median(draws("uniform", 0, 10)) == pytest.approx(5, abs=0.4)
    assert median(draws("loguniform", 0.01, 100)) == pytest.approx(1, rel=0.4)
    assert median(draws("normal", 3, 1)) == pytest.approx(3, abs=0.1)
    assert median(draws("lognormal", 0, 1)) == pytest.approx(1, rel=0.15)
    assert set(draws("randint", 2, 5)) == {2, 3, 4}
    assert set(draws("quniform", 0, 1, 0.5)) == {0.0, 0.5, 1.0}
    assert set(draws("qloguniform", 1, 4, 1)) == {1.0, 2.0, 3.0, 4.0}


@pytest.mark.parametrize(
    ("space", "field", "told"),
    [
        ([], "", "must map parameter names to specifications, not be []"),
        ({1: {}}, "", "a parameter's name must be a string, not 1"),
        ({"x": [1]}, "x", 'must be a mapping with "_type" and "_value", not [1]'),
        ({"x": {"_value": [1]}}, "x", 'has no "_type"'),
        (
            {"x": {"_type": "choice", "_values": [1]}},
            "x",
            'has no "_value"; did you write "_values" instead?',
        ),
        ({"x": {"_type": "unifrom", "_value": [0, 1]}}, "x._type", "did you mean uniform?"),
        (
            {"x": {"_type": 3, "_value": [0, 1]}},
            "x._type",
            "must be one of choice, randint, uniform, quniform",
        ),
        ({"x": {"_type": "choice", "_value": {"a": 1}}}, "x._value", "must be a list, not {'a': 1}"),
        ({"x": {"_type": "choice", "_value": "abc"}}, "x._value", "must be a list"),
        ({"x": {"_type": "choice", "_value": []}}, "x._value", "at least one option"),
        ({"x": {"_type": "choice", "_value": [1, float("nan")]}}, "x._value[1]", "must not hold nan"),
        ({"x": {"_type": "choice", "_value": [{"a": [float("inf")]}]}}, "x._value[0].a[0]", "inf"),
        (
            {"x": {"_type": "uniform", "_value": [0]}},
            "x._value",
            "takes 2 numbers (lower bound, upper bound), not 1",
        ),
        ({"x": {"_type": "quniform", "_value": [0, 1]}}, "x._value", "(lower bound, upper bound, q)"),
        ({"x": {"_type": "normal", "_value": [0, "1e-3"]}}, "x._value[1]", "must be a number, not '1e-3'"),
        ({"x": {"_type": "uniform", "_value": [False, 1]}}, "x._value[0]", "must be a number, not False"),
        ({"x": {"_type": "uniform", "_value": [0, float("inf")]}}, "x._value[1]", "finite number, not inf"),
        ({"x": {"_type": "uniform", "_value": [0, 10**400]}}, "x._value[1]", "finite number"),
        ({"x": {"_type": "randint", "_value": [1, 1]}}, "x._value", "1 must be less than the upper bound 1"),
        ({"x": {"_type": "loguniform", "_value": [0, 0]}}, "x._value[0]", "must be greater than 0"),
        ({"x": {"_type": "quniform", "_value": [1, 1, 0]}}, "x._value[2]", "q must be greater than 0"),
        ({"x": {"_type": "randint", "_value": [3, 1]}}, "x._value", "must be less than"),
        ({"x": {"_type": "uniform", "_value": [-1e308, 1e308]}}, "x._value", "too far apart"),
        ({"x": {"_type": "quniform", "_value": [0, 1e300, 1e-300]}}, "x._value", "too far apart"),
        ({"x": {"_type": "lognormal", "_value": [1000, 1]}}, "x._value", "too far apart"),
        ({"x": {"_type": "normal", "_value": [0, 1e308]}}, "x._value", "too far apart"),
        ({"x": {"_type": "randint", "_value": [0, 1.5]}}, "x._value[1]", "must be an integer, not 1.5"),
        ({"x": {"_type": "loguniform", "_value": [0, 1]}}, "x._value[0]", "must be greater than 0, not 0"),
        ({"x": {"_type": "lognormal", "_value": [0, 0]}}, "x._value[1]", "sigma must be greater than 0"),
        ({"x": {"_type": "qnormal", "_value": [0, 1, 0]}}, "x._value[2]", "q must be greater than 0"),
        (
            {"x": {"_type": "choice", "_value": [{"_name": "a"}, {"b": 1}]}},
            "x._value[1]",
            'a mapping with "_name"',
        ),
        (
            {"x": {"_type": "choice", "_value": [{"_name": "a"}] * 2}},
            "x._value[1]._name",
            "name of two options",
        ),
        (
            {"x": {"_type": "choice", "_value": [{"_name": []}]}},
            "x._value[0]._name",
            "must be a string or number",
        ),
        (
            {
                "m": {
                    "_type": "choice",
                    "_value": [{"_name": "a", "lr": {"_type": "uniform", "_value": [2, 1]}}],
                }
            },
            "m._value[0].lr._value",
            "must be less than",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(space: Any, field: str, told: str) -> None:
    with pytest.raises(SearchSpaceError) as caught:
        validate(space)
    assert caught.value.field == field
    assert told in str(caught.value)


def test_all_errors_are_found_at_once() -> None:
    nested = [{"_name": "a", "lr": {"_type": "uniform", "_value": [2, 1]}}, {"_name": "a"}]
    space = {
        "a": {"type": "uniform"},
        "b": {"_type": "unifrom", "_value": 1},
        "c": {"_type": "quniform", "_value": ["x", 1, "y"]},
        "fine": {"_type": "choice", "_value": [1]},
        "d": {"_type": "qnormal", "_value": [0, 0, 0]},
        "e": 7,
        "f": {"_type": "choice", "_value": [math.nan, 1, math.inf]},
        "g": {"_type": "choice", "_value": nested},
    }
    with pytest.raises(SearchSpaceError) as caught:
        parse(space)
    fields = ["a", "a", "b._type", "b._value", "c._value[0]", "c._value[2]"]
    fields += ["d._value[1]", "d._value[2]", "e"]
    fields += ["f._value[0]", "f._value[2]", "g._value[0].lr._value", "g._value[1]._name"]
    assert [error.field for error in caught.value.all] == fields
    assert caught.value.field == "a" and str(caught.value) == 'has no "_type"; did you write "type" instead?'


def test_a_tuner_may_support_fewer_types() -> None:
    with pytest.raises(SearchSpaceError, match="the tuner supports only choice, not uniform"):
        validate({"x": {"_type": "uniform", "_value": [0, 1]}}, types=frozenset({ParameterType.CHOICE}))


@pytest.mark.parametrize("kind", ["uniform", "loguniform", "quniform", "qloguniform"])
def test_bounds_that_are_one_pin_a_number(kind: str) -> None:
    """As with NNI: that is how users hold a parameter of a space fast."""
    value = [3, 3, 2] if kind.startswith("q") else [3, 3]
    space = parse({"x": {"_type": kind, "_value": value}})
    found = sample(space, random.Random(1))["x"]
    assert (found, type(found)) == (3.0, float)


@pytest.mark.parametrize(
    "space",
    [
        {},
        {"x": {"_type": "randint", "_value": [0, 2.0]}},
        {"x": {"_type": "choice", "_value": [{"a": 1}, {"b": 2}, 3]}},
        {"x": {"_type": "choice", "_value": (1, 2)}},
    ],
)
def test_what_nni_takes_is_taken(space: Any) -> None:
    assert isinstance(parse(space), Space)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"c": 1, "n": 2, "u": 0.5, "m": {"_name": "a", "k": 1}}, []),
        ({"c": 1, "n": 2, "u": 1}, ["m is missing"]),
        ({"c": True, "n": 2, "u": 1, "m": {"_name": "b"}}, ["c is True, which is none of its options 1, 2"]),
        ({"c": 1, "n": 4, "u": 1, "m": {"_name": "b"}}, ["n is 4, outside randint [0, 4]"]),
        ({"c": 1, "n": 1.5, "u": 1, "m": {"_name": "b"}}, ["n must be an integer, not 1.5"]),
        ({"c": 1, "n": 1, "u": "1", "m": {"_name": "b"}}, ["u must be a finite number, not '1'"]),
        ({"c": 1, "n": 1, "u": 0.7, "m": {"_name": "b"}}, ["u is 0.7, which is not a multiple of 0.5"]),
        ({"c": 1, "n": 1, "u": 1, "m": {"_name": "a"}}, ["m.k is missing"]),
        (
            {"c": 1, "n": 1, "u": 1, "m": {"_name": "b", "k": 1}},
            ["m.k is not in the search space, which has no parameters under m"],
        ),
        ({"c": 1, "n": 1, "u": 1, "m": "b"}, ["m must be a mapping with one of a, b as \"_name\", not 'b'"]),
        (
            {"c": 1, "n": 1, "u": 1, "m": {"_name": "b"}, "z": 0},
            ["z is not in the search space, which has c, n, u, m"],
        ),
        ([1], ["the parameter set must be a mapping of parameters, not [1]"]),
    ],
)
def test_what_a_user_writes_is_compared_with_the_space(parameters: Any, told: list[str]) -> None:
    space = parse(
        {
            "c": {"_type": "choice", "_value": [1, 2]},
            "n": {"_type": "randint", "_value": [0, 4]},
            "u": {"_type": "quniform", "_value": [0, 1, 0.5]},
            "m": {
                "_type": "choice",
                "_value": [{"_name": "a", "k": {"_type": "normal", "_value": [0, 1]}}, {"_name": "b"}],
            },
        }
    )
    assert contains(space, parameters) == told


def test_of_many_options_the_first_ones_are_told() -> None:
    space = parse({"c": {"_type": "choice", "_value": list(range(100))}})
    told = contains(space, {"c": 100})
    assert told == ["c is 100, which is none of its options 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."]
