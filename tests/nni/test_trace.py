"""``nni.trace``, ``nni.dump`` and ``nni.load``: the text is in NNI's format, and objects are
created again.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import io
import json
import math
import pathlib
import pickle
import warnings
from collections import OrderedDict
from typing import Any

import pytest

import nni
from nni._trace import PayloadTooLarge, Traceable, is_traceable


class Colour(enum.Enum):
    RED = 1


@nni.trace
class Net:
    """A traced class with layers."""

    def __init__(self, layers: list[int], *, name: str = "net") -> None:
        self.layers, self.name = layers, name
        layers.append(0)


@nni.trace  # type: ignore[untyped-decorator]
def double(number: int) -> int:
    return 2 * number


@nni.trace  # type: ignore[untyped-decorator]
def nothing(**options: Any) -> None:
    return None


class Pair:
    def __init__(self, left: int) -> None:
        self.left = left

    def _dump(self) -> dict[str, int]:
        return {"left": self.left}

    @staticmethod
    def _load(left: int) -> Pair:
        return Pair(left)


class Plain:
    def __init__(self, size: int) -> None:
        self.content = "x" * size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ([1, {"a": 0.5, "b": [True]}], '[1, {"a": 0.5, "b": [true]}]'),
        ("\u00e9", '"\\u00e9"'),
        ({3, 1}, '{"__set__": [1, 3]}'),
        (1j, '{"__complex__": [0.0, 1.0]}'),
        (pathlib.Path("/a"), '{"__pathlib__": "/a"}'),
        (decimal.Decimal("1.5"), '{"__decimal__": "1.5"}'),
        (fractions.Fraction(1, 3), '{"__fraction__": true, "numerator": 1, "denominator": 3}'),
        (datetime.date(2020, 1, 2), '{"__date__": null, "year": 2020, "month": 1, "day": 2}'),
        (datetime.time(1, 2), '{"__time__": null, "hour": 1, "minute": 2}'),
        (
            datetime.datetime(2020, 1, 2, 3),
            '{"__datetime__": null, "year": 2020, "month": 1, "day": 2, "hour": 3}',
        ),
        (datetime.timedelta(1, 2), '{"__timedelta__": null, "days": 1, "seconds": 2}'),
        (
            Colour.RED,
            f'{{"__enum__": {{"__enum_instance_type__": ["{__name__}", "Colour"], "name": "RED"}}}}',
        ),
        (json.dumps, '{"__nni_type__": "path:json.dumps"}'),
        (int, '{"__nni_type__": "path:builtins.int"}'),
    ],
)
def test_values_are_written_as_nni_writes_them_and_come_back(value: Any, text: str) -> None:
    assert nni.dump(value) == text
    found = nni.load(text)
    assert found == value and type(found) is type(value)


def test_numbers_that_json_has_not() -> None:
    assert nni.dump([math.nan, -math.inf, (1, 2)]) == "[NaN, -Infinity, [1, 2]]"
    assert math.isnan(nni.load("NaN"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        nni.dump(math.nan, allow_nan=False)


def test_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert nni.dump({"a": numpy.int64(3), "b": numpy.float64(0.5)}) == '{"a": 3, "b": 0.5}'
    text = nni.dump(numpy.array([[1, 2]]))
    assert text == '{"__ndarray__": [[1, 2]], "dtype": "int64", "shape": [1, 2], "Corder": true}'
    assert (nni.load(text) == numpy.array([[1, 2]])).all()


def test_a_traced_object_is_told_by_how_it_was_made() -> None:
    layers = [1, 2]
    net = Net(layers, name="a")
    assert layers == [1, 2] and net.layers == [1, 2, 0]  # the class got a copy of the list
    assert net.trace_symbol is Net and net.trace_args == []  # type: ignore[attr-defined]
    assert net.trace_kwargs == {"layers": [1, 2], "name": "a"}  # type: ignore[attr-defined]
    text = nni.dump({"net": net})
    expected = {"__symbol__": f"path:{__name__}.Net", "__kwargs__": {"layers": [1, 2], "name": "a"}}
    assert json.loads(text) == {"net": expected}
    again = nni.load(text)["net"]
    assert isinstance(again, Net) and again.layers == [1, 2, 0] and nni.dump({"net": again}) == text


def test_a_copy_can_be_changed_and_made() -> None:
    net: Any = Net([1])
    changed = net.trace_copy()
    changed.trace_kwargs["name"] = "other"
    made = changed.get()
    assert isinstance(made, Net) and (made.name, net.name) == ("other", "net")
    assert made.get() is made and isinstance(changed, Traceable)  # type: ignore[attr-defined]


def test_traced_functions() -> None:
    four: Any = double(2)
    assert four == 4 and four + 1 == 5
    assert is_traceable(four) and nni.dump(four) == "4" and not is_traceable(nni.load("4"))
    pairs: Any = nni.trace(kw_only=False)(OrderedDict)([("a", 1), ("b", four)])
    assert pairs.trace_args == [[("a", 1), ("b", four)]] and nni.dump([pairs]) == '[{"a": 1, "b": 4}]'
    made: Any = nothing(a=1)
    assert is_traceable(made) and made.trace_kwargs == {"a": 1}
    kept: Any = nni.trace(kw_only=False)(Plain)(3)
    assert kept.trace_args == [3] and kept.content == "xxx" and isinstance(kept, Plain)
    assert not is_traceable(Plain(3))  # an imported class is not changed
    again = pickle.loads(pickle.dumps(kept))
    assert again.trace_args == [3] and again.content == "xxx"
    with pytest.raises(TypeError, match="neither a class nor a function"):
        nni.trace(3)


def test_a_subclass_is_not_traced_unless_it_is_wanted() -> None:
    class Sub(Net):
        pass

    made: Any = Sub([1])
    assert "_nni_symbol" not in made.__dict__ and not is_traceable(made)
    with pytest.raises(AttributeError, match="Sub does not store how its objects were created"):
        assert made.get().trace_symbol
    assert json.loads(nni.dump(made)).keys() == {"__nni_obj__"}


def test_tracing_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNI_TRACE_FLAG", "DISABLE")
    assert nni.trace(Pair) is Pair and "_traced" not in Pair.__dict__


def test_what_is_not_known_is_pickled_if_it_is_small() -> None:
    assert nni.load(nni.dump(Pair(3))).left == 3
    assert json.loads(nni.dump(Pair(3)))["__instance_type__"] == f"path:{__name__}.Pair"
    found = nni.load(nni.dump(Plain(3)))
    assert isinstance(found, Plain) and found.content == "xxx"
    with pytest.raises(PayloadTooLarge):
        nni.dump(Plain(5000))
    with pytest.raises(TypeError, match="has no JSON form"):
        nni.dump(b"bytes")


def test_files_and_comments(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.json"
    assert nni.dump({"a": 1}, path, indent=2) == path.read_text() == '{\n  "a": 1\n}'
    assert nni.load(fp=path) == {"a": 1}
    assert nni.load(fp=io.StringIO('{"a": "#//" // one\n# two\n}')) == {"a": "#//"}
    with pytest.raises(TypeError, match="give a text"):
        nni.load()
