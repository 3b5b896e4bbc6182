"""Binary format of named arrays (``application/vnd.nnimgr.columns``), in which clients get the data of
charts.

An answer in this format has these parts: a u32 with the length of a JSON header, the header, zeros up to a
multiple of 8, and the arrays. Each array starts at a multiple of 8. All numbers are little-endian.

The header's field ``columns`` describes each array: its name, type, offset (from the start of the first
array) and number of elements. If the elements are codes of categories, it also lists the categories.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nnimgr.analysis.column import Array

__all__ = ["PackedColumn", "compact", "pack"]

_TYPES = {"float32": "f32", "float64": "f64", "uint8": "u8", "uint16": "u16", "uint32": "u32"}
_EXACT = 2**24  # float32 represents every integer up to here
_LARGEST, _SMALLEST = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)


class PackedColumn(NamedTuple):
    """Named array of type f32, f64, u8, u16 or u32. If it has ``categories``, its elements are indices into
    them.
    """

    name: str
    array: Array
    categories: Sequence[Any] | None = None


def pack(header: Mapping[str, Any], columns: Sequence[PackedColumn]) -> bytes:
    """Encode a header and arrays in the binary format of this module.

    ``header`` has all fields of the JSON header except ``columns``. Raise ValueError if it contains NaN.
    """
    described: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    offset = 0
    for name, array, categories in columns:
        body = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        entry = {"name": name, "type": _TYPES[array.dtype.name], "offset": offset, "length": len(array)}
        described.append(entry if categories is None else entry | {"categories": categories})
        buffers += (body, _padding(len(body)))
        offset += len(body) + len(buffers[-1])
    text = json.dumps({**header, "columns": described}, allow_nan=False, separators=(",", ":")).encode()
    return b"".join((struct.pack("<I", len(text)), text, _padding(4 + len(text)), *buffers))


def compact(array: Array) -> Array:
    """Convert an array of float64 to float32, which needs half the space. Return any other array unchanged.

    An array is also returned unchanged if the conversion would change an integer or exceed the range of
    float32.
    """
    if array.dtype != np.float64:
        return array
    sizes = np.abs(array[~np.isnan(array) & (array != 0)])
    if len(sizes) and (sizes.max() > _LARGEST or sizes.min() < _SMALLEST):
        return array
    large = array[np.abs(array) > _EXACT]
    if len(large) and np.any(large == np.rint(large)) and np.any(large != large.astype(np.float32)):
        return array
    return array.astype(np.float32)


def _padding(length: int) -> bytes:
    return b"\0" * (-length % 8)
