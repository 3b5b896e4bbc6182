"""Scatter plots as grids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnimgr.analysis.density import density
from nnimgr.analysis.errors import BadQuestion
from tests.analysis.given import MAXIMISED, GivenColumns, unpack

ROWS = 300


def ask(columns: GivenColumns, **arguments: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    return unpack(density(columns, MAXIMISED.taken, {"bins": 8, "y": None, **arguments}))


def cloud() -> GivenColumns:
    random = np.random.default_rng(2)
    x, y = random.uniform(1, 2, ROWS), random.uniform(10, 20, ROWS)
    x[:20] = np.nan
    value = x + y
    value[20:40] = np.nan
    return GivenColumns(
        ROWS,
        {
            "parameters.x": x,
            "parameters.y": y,
            "parameters.c": random.integers(0, 2, ROWS).astype(np.uint8),
        },
        categories={"parameters.c": ["a", "b"]},
        value=value,
    )


def test_counts_and_values_of_each_cell() -> None:
    columns = cloud()
    header, found = ask(columns, x="parameters.x", y="parameters.y")
    x, y, value = (columns.arrays[name] for name in ("parameters.x", "parameters.y", "value"))
    edges = [
        np.linspace(array[20:].min() if array is x else array.min(), np.nanmax(array), 9) for array in (x, y)
    ]
    expected, _, _ = np.histogram2d(x[20:], y[20:], bins=edges)
    assert (header["total"], header["shown"]) == (ROWS, ROWS - 20)
    assert found["count"].tolist() == expected[found["x"], found["y"]].tolist()
    assert found["count"].sum() == ROWS - 20
    columns_of = np.clip(np.digitize(x, edges[0]) - 1, 0, 7), np.clip(np.digitize(y, edges[1]) - 1, 0, 7)
    cell = (columns_of[0] == found["x"][0]) & (columns_of[1] == found["y"][0]) & ~np.isnan(value)
    assert found["mean"][0] == pytest.approx(value[cell].mean(), rel=1e-6)
    assert (found["min"][0], found["max"][0]) == pytest.approx(
        (value[cell].min(), value[cell].max()), rel=1e-6
    )


def test_along_one_axis() -> None:
    columns = cloud()
    header, found = ask(columns, x="parameters.c", filter="parameters.y>15")
    assert [axis["name"] for axis in header["axes"]] == ["parameters.c"] and "y" not in found
    high = columns.arrays["parameters.c"][columns.arrays["parameters.y"] > 15]
    assert found["count"].tolist() == np.bincount(high).tolist()


def test_a_cell_without_a_result_has_no_mean() -> None:
    columns = GivenColumns(3, {"parameters.n": [1.0, 2.0, 3.0]}, value=[1.0, np.nan, 3.0])
    _, found = ask(columns, x="parameters.n")
    assert found["count"].tolist() == [1, 1, 1]
    assert [np.isnan(found[name][1]) for name in ("mean", "min", "max")] == [True] * 3
    assert found["max"][[0, 2]].tolist() == [1, 3]


def test_nothing_to_show() -> None:
    header, found = ask(cloud(), x="parameters.x", y="parameters.y", filter="parameters.y>1000")
    assert (header["total"], header["shown"], len(found["count"])) == (0, 0, 0)


def test_the_axis_that_is_wrong_is_named() -> None:
    columns = GivenColumns(2, {"parameters.a": [1.0, 2.0], "parameters.b": [-1.0, 2.0]})
    with pytest.raises(BadQuestion) as caught:
        ask(columns, x="parameters.a", y="parameters.b", y_log=True)
    assert caught.value.field == "y"
