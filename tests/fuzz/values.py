"""Values for fields, parameters and whole bodies: those that a schema wants, and those that nobody wants."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from random import Random
from typing import Any

__all__ = ["Bodies", "hostile", "hostile_text", "json_text"]

HUGE = 300_000
DEEP = 3_000
MOST_REPEATED = 16 << 20  # characters of a text that is repeated, in all its places

_TEXTS = (
    *("", " ", "0", "-1", "1e999", "NaN", "null", "true", "[]", "{}", "0x10", "١٢", "\x00", "a\x00b", "\n"),
    *("..", "../../../../etc/passwd", "..\\..", "/etc/passwd", "%2e%2e%2f", "~", "~root", "//", "/", "."),
    *("\ud800", "\udfff\ud800", "😀" * 50, "\u202e", "\ufeff", "é" * 300, "A" * 70, "a,b,,c", "'", '"', ";"),
    *(
        "' OR 1=1 --",
        "${env:HOME}",
        "${HOME}",
        "{x}",
        "%s%n",
        "<script>",
        "x" * 5_000,
        "x>1;y<",
        "x:[1,",
        ":",
    ),
    *(
        "value>1e400",
        "≠",
        "status:[SUCCEEDED",
        "parameters.",
        "metrics.\ud800",
        "2026-01-01",
        "1h",
        "-5m",
        "\\",
    ),
)
_NUMBERS = (
    *(
        0,
        1,
        -1,
        2,
        3,
        2**31,
        2**32,
        2**53,
        2**63 - 1,
        2**63,
        -(2**63),
        10**30,
        10**400,
        0.5,
        -0.0,
        1e308,
        5e-324,
    ),
    *(math.nan, math.inf, -math.inf),
)
_OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [None], [[]], {"": ""}, {"": {"": [None, "", 0]}})


def hostile_text(draw: Random) -> str:
    """A text that is of no use."""
    return "x" * draw.randint(1, HUGE) if draw.random() < 0.02 else draw.choice(_TEXTS)


def hostile(draw: Random) -> Any:
    """A value that a field is not made for."""
    kind = draw.random()
    if kind < 0.4:
        return hostile_text(draw)
    if kind < 0.7:
        return draw.choice(_NUMBERS)
    if kind < 0.93:
        return copy.deepcopy(draw.choice(_OTHERS))
    if kind < 0.95:
        text, count = hostile_text(draw), draw.randint(100, 20_000)
        return [text[: MOST_REPEATED // count]] * count
    if kind < 0.97:
        return {f"k{number}": None for number in range(draw.randint(30, 20_000))}
    nested: Any = 0
    for _ in range(draw.choice((5, 70, 500))):
        nested = [nested] if draw.random() < 0.5 else {"a": nested}
    return nested


class Bodies:
    """Bodies of requests, from the schemas of an OpenAPI document and from examples that are right.

    ``examples``: by the schema's name.
    """

    def __init__(self, document: Mapping[str, Any], examples: Mapping[str, Any]) -> None:
        self._schemas = document["components"]["schemas"]
        self._examples = examples

    def make(self, schema: Mapping[str, Any], draw: Random) -> Any:
        """A value for the schema, which may be spoiled in several places."""
        value = self._right(schema, draw)
        for _ in range(draw.choice((0, 1, 1, 1, 2, 5))):
            value = spoiled(value, draw)
        return value

    def _right(self, schema: Mapping[str, Any], draw: Random, depth: int = 0) -> Any:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in self._examples and draw.random() < 0.8:
                return copy.deepcopy(draw.choice(self._examples[name]))
            return self._right(self._schemas[name], draw, depth + 1)
        if schema.get("title") in self._examples:
            return copy.deepcopy(draw.choice(self._examples[schema["title"]]))
        if "anyOf" in schema:
            return self._right(draw.choice(schema["anyOf"]), draw, depth + 1)
        if "enum" in schema:
            return draw.choice(schema["enum"])
        match schema.get("type"):
            case "object" if depth < 6:
                fields = schema.get("properties", {})
                needed = schema.get("required", ())
                chosen = {
                    name: field for name, field in fields.items() if name in needed or draw.random() < 0.5
                }
                return {name: self._right(field, draw, depth + 1) for name, field in chosen.items()}
            case "array" if depth < 6:
                items = schema.get("items", {})
                return [self._right(items, draw, depth + 1) for _ in range(draw.choice((0, 1, 2, 30)))]
            case "integer":
                return draw.choice((0, 1, 2, 7, 100, schema.get("maximum", 5), schema.get("minimum", 1)))
            case "number":
                return draw.choice((0, 0.5, 1, 1e9))
            case "boolean":
                return draw.random() < 0.5
            case "string":
                return draw.choice(("x", "value", "sequence", "1h", "a" * int(schema.get("maxLength", 20))))
        return hostile(draw)


def spoiled(value: Any, draw: Random) -> Any:
    """The value with something else in one place."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(list(value))
        how = draw.random()
        if how < 0.1:
            del value[key]
        elif how < 0.2:
            value[hostile_text(draw)] = value[key]
        else:
            value[key] = spoiled(value[key], draw)
        return value
    if isinstance(value, list) and value and draw.random() < 0.7:
        at = draw.randrange(len(value))
        value[at] = spoiled(value[at], draw)
        return value
    if isinstance(value, str) and draw.random() < 0.3:
        at = draw.randint(0, len(value))
        return value[:at] + hostile_text(draw) + value[at:]
    return hostile(draw)


def _bulk(draw: Random) -> bytes:
    """Very many values, or very large ones."""
    count = draw.choice((50_000, 150_000, 500_000))
    value: Any = draw.choice(
        (
            {f"k{number}": number for number in range(count)},
            {"trialIds": ["abcde"] * count},
            {"trialIds": list(range(count))},
            {"records": [{"parameter": {}, "value": None, "x": 0}] * (count // 10)},
            {"records": [{"parameter": {"x": number}, "value": 0} for number in range(count // 10)]},
            {"parameters": {f"x{number}": [number] for number in range(count // 20)}},
            {"config": {"a": [0] * count}, "searchSpace": {}, "environ": {str(n): n for n in range(count)}},
            {"text": "a: &a [0]\n" + "b: [*a, *a]\n" * (count // 10)},
            {"text": "x" * 20 * count},
            {"axes": [{}] * count, "brushes": {str(number): {} for number in range(count // 10)}},
            {"tags": [""] * count},
        )
    )
    return json.dumps(value).encode()


def json_text(value: Any, draw: Random) -> bytes:
    """The value as JSON or as what looks like it: cut off, doubled, of another encoding, nested too deep."""
    if draw.random() < 0.03:
        return _bulk(draw)
    text = json.dumps(value, ensure_ascii=draw.random() < 0.7)
    how = draw.random()
    if how < 0.75:
        return text.encode(errors="surrogatepass")
    if how < 0.80:
        return text[: draw.randint(0, len(text))].encode(errors="surrogatepass")
    if how < 0.85 and text.startswith("{") and len(text) > 2:
        return f"{text[:-1]},{text[1:]}".encode(errors="surrogatepass")  # each key twice
    if how < 0.88:
        return b"[" * DEEP + b"]" * draw.choice((0, DEEP))
    if how < 0.90:
        return b'{"a":' * DEEP + b"1" + b"}" * DEEP
    if how < 0.92:
        return text.encode("utf-16", errors="surrogatepass")
    if how < 0.94:
        return b"\xef\xbb\xbf" + text.encode(errors="surrogatepass")
    if how < 0.96:
        return draw.randbytes(draw.randint(0, 2_000))
    if how < 0.98:
        return b""
    return (
        text.replace(" ", "\n\t" * draw.randint(0, 3))
        .replace("1", "1" * draw.choice((1, 400, 5_000)))
        .encode(errors="surrogatepass")
    )
