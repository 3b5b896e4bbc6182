"""JSON codec for frozen dataclasses, here called records: facts, snapshots and messages in pipes.

A record becomes a JSON object of its fields. Fields equal to their defaults are left out, and so are fields
with ``compare=False``, which are derived from other fields. Decoding checks a value only by constructing the
record. Unknown keys are ignored, so that an older program can read records with new fields.

Supported field types: str, int, float, bool, None, Any, datetime (aware, ISO text), timedelta (seconds),
StrEnum, other records, named tuples (as lists), tuple, frozenset, list, dict, Mapping, and unions of a record
type or scalar with None. NaN and infinite floats are refused; records carry these values as text.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

__all__ = ["decode", "dumps", "encode", "loads"]

T = TypeVar("T")
_Plain = Callable[[Any], Any]


def dumps(value: Any) -> str:
    """Return a plain value as compact JSON text. Raise ValueError for NaN and infinity."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


loads = json.loads


def encode(record: Any) -> Any:
    """Return the plain JSON value of a record (a frozen dataclass), or of a container of records."""
    kind = type(record)
    if kind in (str, int, float, bool) or record is None:
        return record
    if isinstance(record, Enum):
        return record.value
    if isinstance(record, datetime):
        return record.isoformat()
    if isinstance(record, timedelta):
        return record.total_seconds()
    if dataclasses.is_dataclass(record):
        return {
            name: encode(value)
            for name, default in _fields(kind)  # type: ignore[arg-type]
            if (value := getattr(record, name)) != default or type(value) is not type(default)
        }
    if isinstance(record, Mapping):
        return {str(key): encode(value) for key, value in record.items()}
    if isinstance(record, frozenset | set):
        return sorted(encode(value) for value in record)
    if isinstance(record, list | tuple):
        return [encode(value) for value in record]
    raise TypeError(f"no JSON form for {kind.__name__}")


def decode(kind: type[T], value: Any) -> T:
    """Return the record of the class ``kind`` from its JSON value, which ``encode`` has returned."""
    decoder: _Plain = _decoder(kind)  # type: ignore[arg-type]
    return typing.cast("T", decoder(value))


_MISSING = object()


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    pairs = []
    for field in dataclasses.fields(kind):
        if not field.compare:
            continue
        default = field.default
        if default is dataclasses.MISSING:
            default = _MISSING if field.default_factory is dataclasses.MISSING else field.default_factory()
        pairs.append((field.name, default))
    return tuple(pairs)


@cache
def _decoder(kind: Any) -> _Plain:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _optional(kind)
    if origin is not None:
        return _container(origin, get_args(kind))
    if kind is datetime:
        return datetime.fromisoformat
    if kind is timedelta:
        return lambda seconds: timedelta(seconds=seconds)
    if isinstance(kind, type):
        if issubclass(kind, Enum):
            return kind
        if dataclasses.is_dataclass(kind):
            return _record(kind)
        if issubclass(kind, tuple) and hasattr(kind, "_make"):
            hints = typing.get_type_hints(kind)
            parts = [_decoder(hints[name]) for name in kind.__annotations__]
            return lambda values: kind(*(part(value) for part, value in zip(parts, values, strict=True)))
    return lambda value: value


def _optional(kind: Any) -> _Plain:
    options = [option for option in get_args(kind) if option is not type(None)]
    if len(options) != 1:
        return lambda value: value  # values of a union of plain scalars are not converted
    inner = _decoder(options[0])
    return lambda value: None if value is None else inner(value)


def _container(origin: Any, args: tuple[Any, ...]) -> _Plain:
    if issubclass(origin, Mapping):
        keys, values = _decoder(args[0]), _decoder(args[1])
        return lambda mapping: {keys(k): values(v) for k, v in mapping.items()}
    if origin is tuple and args[-1] is not Ellipsis:
        parts = [_decoder(arg) for arg in args]
        return lambda items: tuple(part(item) for part, item in zip(parts, items, strict=True))
    inner = _decoder(args[0])
    return lambda items: origin(inner(item) for item in items)


def _record(kind: Any) -> _Plain:
    hints = typing.get_type_hints(kind)
    parts = {field.name: _decoder(hints[field.name]) for field in dataclasses.fields(kind) if field.compare}

    def build(value: Any) -> Any:
        return kind(**{name: part(value[name]) for name, part in parts.items() if name in value})

    return build
