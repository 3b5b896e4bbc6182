"""Constraints: what can be written, what is refused, and what an evaluation may cost."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnimgr.constraints import Constraint, Constraints
from nnimgr.expressions import ExpressionError, names_of
from nnimgr.search_space import parse

SPACE = parse(
    {
        "lower": {"_type": "uniform", "_value": [0, 1]},
        "upper": {"_type": "uniform", "_value": [0, 1]},
        "batch-size": {"_type": "randint", "_value": [1, 100]},
        "kind": {"_type": "choice", "_value": ["a", 3, True, None, [1, 2], {"deep": {"er": 1}}]},
        "optimizer": {
            "_type": "choice",
            "_value": [
                {"_name": "sgd", "momentum": {"_type": "uniform", "_value": [0, 1]}},
                {
                    "_name": "adam",
                    "beta": {"_type": "uniform", "_value": [0, 1]},
                    "a-b": {"_type": "randint", "_value": [0, 9]},
                },
            ],
        },
    }
)
NAMES = names_of(SPACE)
SET = {
    "lower": 0.25,
    "upper": 0.5,
    "batch-size": 8,
    "kind": "a",
    "optimizer": {"_name": "sgd", "momentum": 0.9},
}


def holds(text: str, **other: Any) -> bool:
    return Constraint(text, NAMES).holds({**SET, **other})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lower < upper", True),
        ("0 < lower < upper <= 0.5", True),
        ("0 < upper < lower", False),
        ("lower + upper == 0.75 and upper - lower == 0.25", True),
        ('param("batch-size") * 512 <= 4096', True),
        ("param('batch-size') % 3 == 2 and param('batch-size') // 3 == 2", True),
        ("2 ** param('batch-size') == 256", True),
        ("not (lower > upper or upper > 1)", True),
        ("kind == 'a'", True),
        ("kind in ('a', 3)", True),
        ("kind not in ['b', None]", True),
        ("'a' in kind", True),
        ("optimizer == 'sgd'", True),
        ("optimizer._name != 'sgd'", False),
        ("optimizer.momentum > 0.5 if optimizer == 'sgd' else lower > 1", True),
        ("abs(lower - upper) < 0.3", True),
        ("max(lower, upper) == 0.5 and min([lower, upper]) == 0.25", True),
        ("sum([lower, upper]) > 0.7", True),
        ("round(lower * 10) == 2 and round(lower, 1) == 0.2", True),
        ("sqrt(lower) == upper", True),
        ("exp(lower) > 1 and log(upper) < 0 and log2(lower) == -2 and log10(upper) < 0", True),
        ("floor(upper) == 0 and ceil(upper) == 1", True),
        ("len(kind) == 1", True),
        ("-lower < +upper", True),
        ("(lower > 0.1) + (upper > 0.1) + (lower > 0.4) == 2", True),
        ("lower\n< upper", True),
    ],
)  # fmt: skip
def test_what_can_be_written(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("kind", True, True),
        ("not kind", True, False),
        ("kind is None", None, True),
        ("kind is not None", 3, True),
        ("kind == [1, 2] or kind == (1, 2)", [1, 2], True),
        ("kind[1] == 2 and kind[-1] == 2", [1, 2], True),
        ("kind.deep.er == 1", {"deep": {"er": 1}}, True),
        ("kind['deep']['er'] > 1", {"deep": {"er": 1}}, False),
    ],
)
def test_values_of_every_kind(text: str, kind: Any, expected: bool) -> None:
    assert holds(text, kind=kind) is expected


def test_a_parameter_that_the_set_does_not_have_meets_whatever_is_said_of_it() -> None:
    adam = {"_name": "adam", "beta": 0.1, "a-b": 3}
    assert holds("optimizer.momentum > 2", optimizer=adam)
    assert not holds("optimizer.beta > 0.5", optimizer=adam)
    assert holds("optimizer['a-b'] == 3", optimizer=adam)
    # What comes before decides, so that each option can be given a rule of its own.
    either = "optimizer == 'sgd' and optimizer.momentum > 0.5 or optimizer == 'adam' and optimizer.beta > 0.5"
    assert holds(either)
    assert not holds(either, optimizer=adam)
    assert not holds(either, optimizer={"_name": "sgd", "momentum": 0.1})
    assert Constraint("lower < upper").holds({}) and Constraint("lower < upper").holds("no mapping")


@pytest.mark.parametrize(
    ("text", "sentence", "nearest"),
    [
        ("lower < uper", "the search space has no parameter uper", "upper"),
        ("batch-size < 3", "the search space has no parameter batch", 'param("batch-size")'),
        ("optimizer.momentun < 3", "optimizer has no parameter momentun in it", "optimizer.momentum"),
        ("optimizer.a - optimizer.b < 0", "optimizer has no parameter a in it", None),
        ("kind == none", "the search space has no parameter none", "None"),
        ("kind == relu", "the search space has no parameter relu; its parameters are", None),
        ("momentum < 0.99", "the search space has no parameter momentum", "optimizer.momentum"),
        ("lower.__class__ == 1", "lower has no parameter __class__ in it", None),
        ("", "is empty", None),
        ("1 < 2", "names no parameter, so it is always true or always false", None),
        ("True", "names no parameter, so it is always true or always false", None),
        ("lower + 1", "lower + 1 is neither true nor false; write a comparison", None),
        ("lower < 1 and 'x'", "'x' is neither true nor false; write a comparison", None),
        ("lower = upper", "cannot be read at character 7: write == for =", None),
        ("lower < 1 && upper < 1", "cannot be read at character 12: write and for &&", None),
        ("lower < 1 || upper < 1", "cannot be read at character 12: write or for ||", None),
        ("mim(lower) < 1", "there is no function mim, only abs, min,", "min"),
        ("abs(lower, upper) < 1", "abs takes one argument, not 2 arguments", None),
        ("max(*[lower]) < 1", "max takes plain arguments only", None),
        ("lower & upper == 1", "lower & upper is not supported; the operators are", None),
        ("lower == f'{upper}'", "f'{upper}' is not allowed in an expression", None),
        ("lower == 1j", "1j is not allowed in an expression", None),
        ("__import__('os').system('true') == lower", "there is no function __import__('os').system", None),
        ("(lambda: lower)() < 1", "there is no function lambda: lower", None),
        ("[x for x in kind] == 1", "[x for x in kind] is not allowed in an expression", None),
        ("(lower := 1) < 2", "(lower := 1) is not allowed in an expression", None),
        ("-" * 500 + "lower < 1", "is nested too deeply", None),
        ("(" * 300 + "lower" + ")" * 300 + " < 1", "cannot be read", None),
        ("lower < 1 or " * 100 + "upper < 1", "has 1,309 characters, and may have 1,000", None),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, sentence: str, nearest: str | None) -> None:
    with pytest.raises(ExpressionError) as refused:
        Constraint(text, NAMES)
    assert str(refused.value).startswith(sentence)
    assert refused.value.nearest == nearest


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("1 / (lower - lower) > 0", "a number is divided by zero"),
        ("lower < kind", "0.25 and 'a' cannot be compared in this way"),
        ("kind + 1 < 3", "'a' is not a number"),
        ("kind * 1000000000 == lower", "'a' is not a number"),
        ("'%999999999d' % lower == lower", "'%999999999d' is not a number"),
        ("9 ** 9 ** 9 > lower", "a number becomes too large"),
        ("exp(10000 * upper) > 1", "a number becomes too large"),
        ("(lower - 1) ** upper > 0", "-0.75 to the power of 0.5 is not a real number"),
        ("round(lower, 10 ** 9) == 0", "1000000000 is not a number of digits"),
        ("log(lower - upper) < 0", "math domain error"),
        ("lower", "lower is a number, not a condition; write a comparison such as lower < 1"),
        (
            "not lower or upper < 1",
            "lower is a number, not a condition; write a comparison such as lower < 1",
        ),
        ("kind", "kind is 'a', not a condition; write a comparison such as kind == 'a'"),
        ("len(lower) > 1", "0.25 has no length"),
        ("lower[0] > 1", "0.25 is not a list"),
        ("lower in upper", "0.25 and 0.5 cannot be compared in this way"),
    ],
)
def test_what_has_no_value_is_not_met(text: str, trouble: str) -> None:
    constraint = Constraint(text, NAMES)
    assert not constraint.holds(SET)
    reason = constraint.trouble(SET)
    assert reason is not None and (reason == trouble or reason.startswith("expected a positive"))
    assert constraint.complaint(SET).startswith(f"the constraint {text} cannot be worked out with ")


def test_the_sentence_names_the_constraint_and_the_values() -> None:
    both = Constraints(["lower < upper", "optimizer.momentum * 512 <= param('batch-size')"], NAMES)
    assert both.feasible({**SET, "batch-size": 512}) and len(both) == 2
    assert both.complaint({**SET, "batch-size": 512}) is None
    assert (
        both.complaint({**SET, "lower": 1})
        == "the constraint lower < upper is not met by lower = 1, upper = 0.5"
    )
    assert both.complaint(SET) == (
        "the constraint optimizer.momentum * 512 <= param('batch-size') is not met by "
        'optimizer.momentum = 0.9, param("batch-size") = 8'
    )


NUMBERS = st.integers(-10, 10).map(str) | st.sampled_from(["x", "y", "0.5"])
ARITHMETIC = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
        lambda parts: f"({' '.join(parts)})"
    ),
    max_leaves=6,
)
COMPARISONS = st.tuples(ARITHMETIC, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), ARITHMETIC).map(
    " ".join
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({' '.join(p)})")
        | inner.map(lambda text: f"(not {text})")
    ),
    max_leaves=5,
)


@given(CONDITIONS, st.integers(-5, 5), st.floats(-3, 3))
def test_it_means_what_it_means_in_python(text: str, x: int, y: float) -> None:
    try:
        constraint = Constraint(text)
    except ExpressionError as error:
        assert "names no parameter" in str(error) or "characters" in str(error)
        return
    try:
        expected = eval(compile(ast.parse(text, mode="eval"), "", "eval"), {}, {"x": x, "y": y})
    except ArithmeticError:
        expected = False
    assert constraint.holds({"x": x, "y": y}) is expected


@given(
    st.text(st.characters(codec="utf-8"), max_size=60)
    | st.text("xy01+-*/%<>=()[]{}'\". andornotif", max_size=60)
)
def test_no_text_does_anything_but_be_read_or_refused(text: str) -> None:
    try:
        constraint = Constraint(text)
    except ExpressionError as error:
        assert str(error)
        return
    for parameters in ({"x": 1, "y": "a"}, {"x": [1], "y": {"_name": "b"}}, {}, None):
        assert isinstance(constraint.holds(parameters), bool)
        assert json.dumps(constraint.complaint(parameters))
