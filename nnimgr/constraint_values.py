"""Comparisons, arithmetic and functions in constraints on parameter sets. All have a bounded cost.

Numbers are those of JSON. ``true`` and ``false`` count as 1 and 0 where a number is needed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "ARITHMETIC",
    "COMPARISONS",
    "FUNCTIONS",
    "Absent",
    "Fault",
    "as_bool",
    "as_number",
    "compared",
    "item_of",
    "shown",
]

_MOST_BITS = 4096  # most bits of the result of an integer power
_MOST_DIGITS = 300  # most digits for round()
_MANY = 100  # most arguments of a function that takes any number of arguments


class Absent(Exception):
    """Error: a parameter in the constraint does not exist in the parameter set. The message is its name."""


class Fault(Exception):
    """Error: an expression in a constraint has no value. The message is one sentence."""


def as_bool(value: Any, name: str) -> bool:
    """Return the value of the parameter ``name`` if it is true or false. Raise Fault."""
    if isinstance(value, bool):
        return value
    number = isinstance(value, int | float)
    example = f"{name} < 1" if number else f"{name} == {shown(value)}"
    kind = "a number" if number else shown(value)
    raise Fault(f"{name} is {kind}, not a condition; write a comparison such as {example}")


def as_number(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    raise Fault(f"{shown(value)} is not a number")


def compared(test: Callable[[Any, Any], Any], x: Any, y: Any) -> bool:
    try:
        return bool(test(x, y))
    except TypeError:
        raise Fault(f"{shown(x)} and {shown(y)} cannot be compared in this way") from None


def _within(x: Any, y: Any) -> bool:
    return x in y


def _not_within(x: Any, y: Any) -> bool:
    return x not in y


def _power(x: float, y: float) -> Any:
    whole = isinstance(x, int) and isinstance(y, int) and 0 <= y and abs(x).bit_length() * y <= _MOST_BITS
    found = x**y if whole else float(x) ** float(y)
    if isinstance(found, complex):
        raise Fault(f"{x!r} to the power of {y!r} is not a real number")
    return found


def item_of(held: Any, at: Any) -> Any:
    if isinstance(held, Mapping) and at not in held:
        raise Absent(shown(at))
    if not isinstance(held, list | tuple | Mapping):
        raise Fault(f"{shown(held)} is not a list")
    if isinstance(held, list | tuple) and (isinstance(at, bool) or not isinstance(at, int)):
        raise Fault(f"{shown(at)} is not a position in a list")
    return held[at]


def _of_numbers(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return ``function`` for use in constraints: it takes several numbers, or one list of numbers."""

    def call(*given: Any) -> Any:
        numbers = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
        return function([as_number(each) for each in numbers])

    return call


def _of_number(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: function(as_number(value))


def _round(value: Any, digits: Any = None) -> Any:
    if digits is None:
        return round(as_number(value))
    if not isinstance(digits, int) or abs(digits) > _MOST_DIGITS:
        raise Fault(f"{shown(digits)} is not a number of digits")
    return round(as_number(value), digits)


def _len(value: Any) -> int:
    if isinstance(value, str | list | tuple | Mapping):
        return len(value)
    raise Fault(f"{shown(value)} has no length")


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,  # such as "dropout is None"
    ast.IsNot: operator.ne,
    ast.In: _within,
    ast.NotIn: _not_within,
}
# Functions in constraints: name -> (function, least and largest number of arguments)
FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int, int]] = {
    "abs": (_of_number(abs), 1, 1),
    "min": (_of_numbers(min), 1, _MANY),
    "max": (_of_numbers(max), 1, _MANY),
    "sum": (_of_numbers(sum), 1, _MANY),
    "round": (_round, 1, 2),
    "floor": (_of_number(math.floor), 1, 1),
    "ceil": (_of_number(math.ceil), 1, 1),
    "sqrt": (_of_number(math.sqrt), 1, 1),
    "exp": (_of_number(math.exp), 1, 1),
    "log": (_of_number(math.log), 1, 1),
    "log2": (_of_number(math.log2), 1, 1),
    "log10": (_of_number(math.log10), 1, 1),
    "len": (_len, 1, 1),
}
