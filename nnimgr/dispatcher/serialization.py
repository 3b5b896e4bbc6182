"""Converts values from user code to JSON text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["is_deep", "json_text"]

MOST_DEPTH = 64


def json_text(value: Any, name: str) -> str:
    """Return a value from a tuner as JSON text.

    Tuples become lists, and numpy scalars and arrays become plain numbers. Keys keep their order. Raise
    ValueError for text that is not valid Unicode, and for a number that is not finite; the message then names
    the number's place in the value called ``name``. Raise TypeError for a value without a JSON form.
    """
    try:
        text = _dumps(value)
    except ValueError as error:
        fault = _not_finite(json.loads(_dumps(value, allow_nan=True)), name)
        raise ValueError(fault or str(error)) from None
    if not text.isascii():
        text.encode()  # raises for half a surrogate pair, which could not be stored
    return text


def _dumps(value: Any, *, allow_nan: bool = False) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=allow_nan, default=_plain)
    except TypeError:
        # json rejects some types of keys, such as numpy's numbers. Only then rebuild the value with plain
        # keys, because that is slow.
        plain = _with_plain_keys(value)
        return json.dumps(plain, ensure_ascii=False, allow_nan=allow_nan, default=_plain)


def _not_finite(value: Any, name: str) -> str | None:
    """Return a sentence about the first number in the value that is not finite, such as "lr in parameter set
    3 is nan".

    Return None without such a number.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f"{name} is {value}, which is not finite"
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    faults = (_not_finite(inner, f"{key} in {name}") for key, inner in items)
    return next((fault for fault in faults if fault is not None), None)


def is_deep(value: Any) -> bool:
    """Return whether the value is nested deeper than some JSON parsers can read."""
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [inner for item in level for inner in _inner(item)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _plain(value: Any) -> Any:
    for method in ("tolist", "item"):  # numpy's and torch's arrays and scalars have ``tolist``
        convert = getattr(value, method, None)
        if callable(convert):
            return convert()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return list(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form: {value!r:.60}")


def _with_plain_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_key(key): _with_plain_keys(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_plain_keys(inner) for inner in value]
    return value


def _key(key: Any) -> Any:
    return key if isinstance(key, str | int | float | bool) or key is None else _plain(key)
