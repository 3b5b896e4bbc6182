"""The binary form of columns, read back like in a client."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest

from nnimgr.analysis.binary_columns import PackedColumn, compact, pack

TYPES = {"f32": "<f4", "f64": "<f8", "u8": "<u1", "u16": "<u2", "u32": "<u4"}


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    (size,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + size])
    start = (4 + size + 7) // 8 * 8
    arrays = {}
    for column in header["columns"]:
        assert column["offset"] % 8 == 0
        array = np.frombuffer(content, TYPES[column["type"]], column["length"], start + column["offset"])
        arrays[column["name"]] = array.tolist()
    return header, arrays


def test_what_is_packed_can_be_read() -> None:
    columns = [
        PackedColumn("a", np.array([1, 2, 3], np.uint8), ["x", 1, None]),
        PackedColumn("é", np.array([1.5, np.nan], np.float32)),
        PackedColumn("c", np.array([], np.float64)),
        PackedColumn("d", np.array([7], ">u4")),
        PackedColumn("e", np.arange(10, dtype=np.uint16)[::2]),
    ]
    header, arrays = unpack(pack({"revision": 7}, columns))
    assert header["revision"] == 7
    assert [column["name"] for column in header["columns"]] == ["a", "é", "c", "d", "e"]
    assert header["columns"][0]["categories"] == ["x", 1, None]
    assert "categories" not in header["columns"][1]
    assert arrays["a"] == [1, 2, 3]
    assert arrays["é"][0] == 1.5 and np.isnan(arrays["é"][1])
    assert (arrays["c"], arrays["d"], arrays["e"]) == ([], [7], [0, 2, 4, 6, 8])


def test_a_header_has_no_nan() -> None:
    with pytest.raises(ValueError):
        pack({"min": float("nan")}, [])


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0.1, np.nan, -3.5], np.float32),
        ([], np.float32),
        ([np.nan], np.float32),
        ([2.0**24], np.float32),
        ([2.0**24 + 1], np.float64),  # an integer that float32 cannot represent
        ([2.0**30], np.float32),
        ([1e-300], np.float64),
        ([0.0, 1e300], np.float64),
    ],
)
def test_floats_are_halved_where_nothing_is_lost(values: list[float], dtype: Any) -> None:
    assert compact(np.array(values, np.float64)).dtype == dtype


def test_codes_stay_as_they_are() -> None:
    codes = np.array([1], np.uint8)
    assert compact(codes) is codes
