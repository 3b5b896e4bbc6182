"""JSON reader and writer that work like JavaScript's, because NNI stores JSON texts inside JSON texts.

Differences from Python: numbers are doubles with JavaScript's notation, keys that look like array indexes
come first, and only finite numbers can be written.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

__all__ = ["number", "parse", "quote", "stringify"]

_EXACT = 2**53
_INDEX = re.compile("0|[1-9][0-9]{0,9}")
_MOST_INDEX = 2**32 - 2
_encode = json.JSONEncoder(ensure_ascii=False).encode
_DECIMAL = re.compile(r"[+-]?(Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)")
_WITH_RADIX = re.compile(r"0([xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(text: str | bytes, *, strict: bool = True) -> Any:
    """Return the value of a JSON text. Raise ValueError if it is not valid.

    A number that is too large becomes None, as JavaScript would write it. If ``strict`` is False, Python's
    NaN and Infinity also become None.
    """
    return json.loads(text, parse_constant=_refuse if strict else lambda _: None, parse_float=_finite)


def stringify(value: Any) -> str:
    """Return the JSON text of a value, written as JavaScript's ``JSON.stringify`` writes it."""
    if isinstance(value, str):
        return quote(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, dict):
        keys = list(value)
        if any(map(_is_index, keys)):
            keys.sort(key=lambda key: (0, int(key)) if _is_index(key) else (1, 0))
        return "{" + ",".join(f"{quote(key)}:{stringify(value[key])}" for key in keys) + "}"
    return "[" + ",".join(map(stringify, value)) + "]"


def number(text: str) -> float | None:
    """Return the result of JavaScript's ``Number(text)``; None if that is NaN."""
    bare = text.strip()
    if _DECIMAL.fullmatch(bare):
        return float(bare)
    if _WITH_RADIX.fullmatch(bare):
        try:
            return float(int(bare, 0))
        except OverflowError:
            return math.inf
    return None if bare else 0.0


def quote(text: str) -> str:
    """Return the JSON text of a string, with quotes."""
    quoted = _encode(text)
    if quoted.isascii():
        return quoted
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _number(value: int | float) -> str:
    if isinstance(value, int):
        if abs(value) <= _EXACT:
            return str(value)
        try:
            value = float(value)
        except OverflowError:
            return "null"
    if not math.isfinite(value):
        return "null"
    shortest = repr(value)
    if "e" not in shortest:
        return shortest.removesuffix(".0") if value else "0"
    sign, tuple_of_digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, tuple_of_digits))
    point = len(digits) + exponent  # number of digits before the decimal point
    minus = "-" if sign else ""
    if len(digits) <= point <= 21:
        return minus + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{minus}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{rest}e{point - 1:+d}"


def _is_index(key: str) -> bool:
    """Return True if JavaScript treats the key of an object as an array index. It writes such keys first."""
    return _INDEX.fullmatch(key) is not None and int(key) <= _MOST_INDEX


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
