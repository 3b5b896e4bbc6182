"""Conversion between values of the standard library or numpy and NNI's JSON form.

Runs on Python 3.8 or newer.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import importlib
import pathlib
import re
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["REST", "decode_plain", "encode_plain", "strip_comments"]

REST = object()  # marker for a value whose type has no JSON form
_INSTANT = ("year", "month", "day", "hour", "minute", "second", "microsecond")
_MOMENTS: tuple[tuple[Any, str, tuple[str, ...]], ...] = (
    (datetime.datetime, "__datetime__", _INSTANT),  # before date: a datetime is also a date
    (datetime.date, "__date__", _INSTANT[:3]),
    (datetime.time, "__time__", _INSTANT[3:]),
    (datetime.timedelta, "__timedelta__", ("days", "seconds", "microseconds")),
)
_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|[ \t]*(?://|#)[^\n]*')


def encode_plain(value: Any) -> Any:
    """Return a value in NNI's JSON form. Return the marker REST if its type has no such form.

    Only the outermost value is converted: the caller must convert the items of a returned list or dict.
    """
    if isinstance(value, enum.Enum):
        kind = type(value)
        if isinstance(value, int):
            return int(value)
        return {"__enum__": {"__enum_instance_type__": [kind.__module__, kind.__name__], "name": value.name}}
    if isinstance(value, (str, bool, int, float)):
        return next(kind(value) for kind in (str, bool, int, float) if isinstance(value, kind))
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (set, frozenset)):
        try:
            return {"__set__": sorted(value)}
        except TypeError:
            return {"__set__": list(value)}
    if isinstance(value, complex):
        return {"__complex__": [value.real, value.imag]}
    if isinstance(value, pathlib.PurePath):
        return {"__pathlib__": str(value)}
    if isinstance(value, decimal.Decimal):
        return {"__decimal__": str(value)}
    if isinstance(value, fractions.Fraction):
        return {"__fraction__": True, "numerator": value.numerator, "denominator": value.denominator}
    for moment, name, fields in _MOMENTS:
        if isinstance(value, moment):
            parts = {field: getattr(value, field) for field in fields}
            return {name: None, **{field: part for field, part in parts.items() if part}}
    if hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "tolist"):
        return _encode_numpy(value)
    return REST


def _encode_numpy(value: Any) -> Any:
    if not value.shape:
        warnings.warn("a numpy scalar becomes a plain number", UserWarning, stacklevel=2)
        return value.item()
    found = {"__ndarray__": value.tolist(), "dtype": str(value.dtype), "shape": list(value.shape)}
    if len(value.shape) > 1:
        found["Corder"] = bool(value.flags["C_CONTIGUOUS"])
    return found


def decode_plain(found: dict[str, Any]) -> Any:
    """Return the value that a dict from JSON text stands for, such as a set for ``{"__set__": [...]}``.

    Return any other dict unchanged.
    """
    if "__enum__" in found:
        module, name = found["__enum__"]["__enum_instance_type__"]
        return getattr(importlib.import_module(module), name)[found["__enum__"]["name"]]
    if "__set__" in found:
        return set(found["__set__"])
    if "__complex__" in found:
        return complex(*found["__complex__"])
    if "__pathlib__" in found:
        return pathlib.Path(found["__pathlib__"])
    if "__decimal__" in found:
        return decimal.Decimal(found["__decimal__"])
    if "__fraction__" in found:
        return fractions.Fraction(found["numerator"], found["denominator"])
    for moment, name, fields in _MOMENTS:
        if name in found:
            return moment(**{field: found[field] for field in fields if field in found})
    if "__ndarray__" in found:
        numpy: Any = importlib.import_module("numpy")
        order = "C" if found.get("Corder", True) else "F"
        return numpy.array(found["__ndarray__"], dtype=found["dtype"], order=order).reshape(found["shape"])
    return found


def strip_comments(text: str) -> str:
    """Return JSON text without its comments, which start with ``#`` or ``//`` outside of strings."""
    return _COMMENT.sub(lambda match: match[0] if match[0].startswith('"') else "", text)
