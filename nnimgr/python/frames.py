"""Conversion of the server's answers to a pandas data frame and to an Arrow table."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nnimgr.python.errors import Error

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = ["frame_of", "table_of"]

_TYPES = {"f32": "<f4", "f64": "<f8", "u8": "<u1", "u16": "<u2", "u32": "<u4"}
_LARGEST_EXACT = 2.0**53  # from here on, a float does not stand for one whole number only
_TIMES = ("created", "started", "ended")
_PREFIXES = ("parameters.", "metrics.")


def frame_of(content: bytes, space: Mapping[str, Any]) -> pandas.DataFrame:
    """Return a data frame with the columns of an answer in the format of ``binary_columns``.

    ``space``: the search space, which says which parameters are integers. Raise Error if pandas is not
    installed.
    """
    try:
        import numpy as np
        import pandas as pd
    except ImportError as error:
        import sys

        raise Error(
            f"to_pandas() needs pandas, which is not installed: {error}.",
            hint=f"Install it: {sys.executable} -m pip install pandas",
        ) from error
    (length,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + length])
    start = 4 + length + -(4 + length) % 8
    found: dict[str, Any] = {}
    integers = set(_integers(space, "parameters."))
    for column in header["columns"]:
        kind = np.dtype(_TYPES[column["type"]])
        values: Any = np.frombuffer(content, kind, column["length"], start + column["offset"])
        if "categories" in column:
            codes = np.where(values == np.iinfo(kind).max, -1, values.astype(np.int32))
            values = _chosen(codes, column["categories"])
        elif column["name"] in _TIMES:
            values = pd.to_datetime(header["originAt"]) + pd.to_timedelta(values, unit="s")
        elif column["name"] in integers:
            values = _whole(values)
        found[column["name"]] = values
    index = pd.Index(found.pop("sequence"), name="number")
    names = sorted(found, key=_place)
    return pd.DataFrame({_short(name, found): found[name] for name in names}, index=index)


def _chosen(codes: Any, categories: list[Any]) -> Any:
    """Return the values of a choice: the category of each code; -1 is a missing value, and None, too.

    They keep their types. Values that are equal, such as 1 and True, cannot be categories: then the column
    has plain objects.
    """
    import numpy as np
    import pandas as pd

    labels = _labels(categories)
    if len(set(labels)) < len(labels):
        return np.array([*labels, None], dtype=object)[codes]
    values = pd.Categorical.from_codes(codes, pd.Index(range(len(labels))))
    known = [code for code, each in enumerate(labels) if each is not None]
    values = values.set_categories(known)
    names = [labels[code] for code in known]
    several = len(set(map(type, names))) > 1
    return values.rename_categories(pd.Index(names, dtype=object) if several else names)


def _whole(values: Any) -> Any:
    """Return floats as integers. They stay floats if one of them is not whole, because the search space was
    another one before, or is so large that a float may have other digits.
    """
    import numpy as np
    import pandas as pd

    missing = np.isnan(values)
    known = values[~missing]
    if (np.abs(known) >= _LARGEST_EXACT).any() or (known % 1).any():
        return values
    return pd.array(values, dtype="Int64") if missing.any() else values.astype(np.int64)


def table_of(read: Callable[[], bytes]) -> pyarrow.Table:
    """Return an Arrow IPC stream as a table, with columns named as in a data frame.

    ``read`` gets the stream from the server. It is called only if pyarrow is installed here: the server's
    error, if it lacks pyarrow, too, would be harder to understand. Raise Error if pyarrow is not installed.
    """
    try:
        import pyarrow.ipc
    except ImportError as error:
        import sys

        raise Error(
            f"to_arrow() needs pyarrow, which is not installed: {error}.",
            hint=f"Install it: {sys.executable} -m pip install pyarrow",
        ) from error
    table = pyarrow.ipc.open_stream(read()).read_all()
    names = [name for name in table.column_names if name not in ("sequence", "id")]
    ordered = table.select(["sequence", "id", *sorted(names, key=_place)])
    return ordered.rename_columns(
        ["number", "id", *(_short(name, names) for name in sorted(names, key=_place))]
    )


def _integers(space: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield the names of the columns whose parameters are integers."""
    for name, spec in space.items():
        if not isinstance(spec, Mapping):
            continue
        if spec.get("_type") == "randint":
            yield prefix + name
        for option in spec.get("_value") or () if spec.get("_type") == "choice" else ():
            if isinstance(option, Mapping):
                yield from _integers(option, f"{prefix}{name}/")


def _place(name: str) -> int:
    """Return the place of a column: parameters, the result, further metrics, then all others."""
    first = ("parameters.", "value", "metrics.")
    return next((place for place, prefix in enumerate(first) if name.startswith(prefix)), len(first))


def _labels(categories: list[Any]) -> list[Any]:
    """Return the categories as values that can be hashed: a list or dict becomes JSON text."""
    return [
        each if each is None or isinstance(each, str | int | float) else json.dumps(each)
        for each in categories
    ]


def _short(name: str, names: Any) -> str:
    """Return a column's name without its prefix, unless another column would have the same name."""
    prefix = next((each for each in _PREFIXES if name.startswith(each)), "")
    short = name[len(prefix) :]
    others = [other + short for other in ("", *_PREFIXES) if other != prefix]
    return name if prefix and any(other in names for other in others) else short
