"""JSON as JavaScript reads and writes it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nnimgr.api.nni.javascript import number, parse, quote, stringify


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1.0", "1"),
        ("-0.0", "0"),
        ("0.1", "0.1"),
        ("0.10", "0.1"),
        ("1e-05", "0.00001"),
        ("1.5e-6", "0.0000015"),
        ("1e-7", "1e-7"),
        ("-1.25e-7", "-1.25e-7"),
        ("123456789012345680000", "123456789012345680000"),
        ("1e21", "1e+21"),
        ("1.5e300", "1.5e+300"),
        ("1e16", "10000000000000000"),
        ("12345.678e10", "123456780000000"),
        ("9007199254740993", "9007199254740992"),
        ("1e999", "null"),
        ('[ 1 , true,false,null,"x" ]', '[1,true,false,null,"x"]'),
        ('{"b": 1, "10": 2, "2": 3, "a": 4, "01": 5}', '{"2":3,"10":2,"b":1,"a":4,"01":5}'),
        ('{"4294967295": 1, "4294967294": 2}', '{"4294967294":2,"4294967295":1}'),
        ('{"b": 1, "%s": 2, "3": 3}' % ("1" * 5000), '{"3":3,"b":1,"%s":2}' % ("1" * 5000)),
        (r'"\u00e9\u001f\n\"\\\u2028"', '"é\\u001f\\n\\"\\\\\u2028"'),
        (r'"\ud83d\ude00\ud83d"', '"😀\\ud83d"'),
    ],
)
def test_what_is_read_and_written_again(text: str, written: str) -> None:
    assert stringify(parse(text)) == written


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "-Infinity", "{", "", "'x'"])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_what_python_writes_for_numbers_that_are_not_finite() -> None:
    assert stringify(parse('{"x": NaN, "y": [-Infinity]}', strict=False)) == '{"x":null,"y":[null]}'


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan")])
def test_numbers_that_cannot_be_written(value: Any) -> None:
    assert stringify([value]) == "[null]"


def test_a_text_in_a_text() -> None:
    assert quote(quote('{"default": 0.36}')) == '"\\"{\\\\\\"default\\\\\\": 0.36}\\""'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10.0),
        (" -1.5e1\n", -15.0),
        ("+.5", 0.5),
        ("5.", 5.0),
        ("", 0.0),
        ("0x1F", 31.0),
        ("0o17", 15.0),
        ("0b11", 3.0),
        ("-Infinity", -math.inf),
        ("1e999", math.inf),
        ("0x1" + "0" * 256, math.inf),
        *(
            (text, None)
            for text in ("a", "inf", "nan", "infinity", "1_0", "-0x1", "0x", "1e", ".", "1 2", "٣")
        ),
    ],
)
def test_texts_as_numbers(text: str, value: float | None) -> None:
    assert number(text) == value
