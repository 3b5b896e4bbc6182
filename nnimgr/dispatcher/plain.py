"""What user code hands over as plain JSON, and final results as numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["fault_of_result", "is_deep", "json_text"]

MOST_DEPTH = 64


def json_text(value: Any, name: str) -> str:
    """JSON text of what an algorithm gave: tuples as lists, numpy scalars and arrays as plain numbers.

    Keys stay in the order given. Raises ValueError (not finite, which says where in what is called ``name``;
    no Unicode) and TypeError (no JSON form).
    """
    try:
        text = _dumps(value)
    except ValueError as error:
        fault = _not_finite(json.loads(_dumps(value, allow_nan=True)), name)
        raise ValueError(fault or str(error)) from None
    if not text.isascii():
        text.encode()  # half a surrogate pair could not be stored
    return text


def _dumps(value: Any, *, allow_nan: bool = False) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=allow_nan, default=_plain)
    except TypeError:
        # Keys of another type than json takes (numpy's numbers): only then is the value rebuilt.
        plain = _with_plain_keys(value)
        return json.dumps(plain, ensure_ascii=False, allow_nan=allow_nan, default=_plain)


def _not_finite(value: Any, name: str) -> str | None:
    """Which number in it is none that JSON has, such as 'lr in parameter set 3 is nan'."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{name} is {value}, which is not finite"
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    faults = (_not_finite(inner, f"{key} in {name}") for key, inner in items)
    return next((fault for fault in faults if fault is not None), None)


def is_deep(value: Any) -> bool:
    """Whether it is nested so deeply that not everybody who reads its JSON could."""
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
    for method in ("tolist", "item"):  # numpy's and torch's arrays and scalars have the first
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


def fault_of_result(value: Any, *, numeric: bool) -> str | None:
    """Why a trial's result cannot be used, "is NaN"; None if it can.

    ``numeric``: it must be a number or a mapping with one as ``default``; else only a number that is not
    finite is at fault, and what another value means is left to the algorithm.
    """
    number, subject = value, "is"
    if isinstance(value, Mapping):
        if "default" not in value:
            return 'is a mapping without "default"' if numeric else None
        number, subject = value["default"], 'has as "default"'
    if not isinstance(number, int | float) or (numeric and isinstance(number, bool)):
        return f"{subject} {number!r:.60}, which is no number" if numeric else None
    try:
        finite = math.isfinite(number)
    except OverflowError:
        finite = False
    return None if finite else f"{subject} {number!r:.60}, which is not finite"
