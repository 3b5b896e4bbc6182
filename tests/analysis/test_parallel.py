"""Parallel coordinates: every count is exact, whatever the brushes are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnimgr.analysis.axes import axis
from nnimgr.analysis.errors import BadQuestion
from nnimgr.analysis.parallel import parallel
from tests.analysis.given import FAILED, MAXIMISED, MINIMISED, SUCCEEDED, GivenColumns, GivenSnapshot, unpack

ROWS = 500
OPTIONS = ["relu", "tanh", 3, True]


def many() -> GivenColumns:
    random = np.random.default_rng(7)
    x = random.uniform(0, 1, ROWS)
    value = x + random.normal(0, 0.1, ROWS)
    value[::10] = np.nan
    return GivenColumns(
        ROWS,
        {
            "parameters.x": x,
            "parameters.lr": 10 ** random.uniform(-5, 0, ROWS),
            "parameters.n": random.integers(2, 6, ROWS).astype(np.float64),
            "parameters.act": random.choice([0, 1, 2, 3, 255], ROWS).astype(np.uint8),
        },
        categories={"parameters.act": OPTIONS},
        logarithmic=["parameters.lr"],
        value=value,
        status=np.where(np.arange(ROWS) % 10 == 0, FAILED, SUCCEEDED),
    )


NAMES = ("parameters.x", "parameters.lr", "parameters.act", "parameters.n")


def ask(
    columns: GivenColumns, snapshot: GivenSnapshot = MAXIMISED, **more: Any
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    axes = [{"name": name} for name in more.pop("names", NAMES)]
    return unpack(parallel(columns, snapshot.taken, {"axes": axes, "bins": 16, "lines": 0} | more))


def dense(header: dict[str, Any], found: dict[str, NDArray[Any]], which: str, pair: int) -> NDArray[Any]:
    """Return a 2-D histogram from its cells."""
    left, right = (header["axes"][number]["bins"] + 1 for number in (pair, pair + 1))
    whole = np.zeros(left * right, np.int64)
    whole[found[f"{which}.{pair}.cells"]] = found[f"{which}.{pair}.counts"]
    return whole.reshape(left, right)


def test_an_axis_has_a_part_for_each_category_and_each_of_few_integers() -> None:
    header, found = ask(many())
    assert [each["bins"] for each in header["axes"]] == [16, 16, 4, 4]
    assert header["axes"][2]["categories"] == OPTIONS
    assert (header["axes"][3]["low"], header["axes"][3]["high"]) == (1.5, 5.5)
    assert header["axes"][1]["log"] and not header["axes"][0]["log"]
    # The last element counts trials without a value.
    assert len(found["axis.2.all"]) == 5 and found["axis.2.all"][4] > 0
    assert all(found[f"axis.{number}.all"].sum() == ROWS for number in range(4))


def test_cells_are_those_of_the_values() -> None:
    columns = many()
    header, found = ask(columns)
    x, lr = columns.arrays["parameters.x"], columns.arrays["parameters.lr"]
    edges = [np.linspace(x.min(), x.max(), 17), np.geomspace(lr.min(), lr.max(), 17)]
    expected, _, _ = np.histogram2d(x, lr, bins=edges)
    assert np.array_equal(dense(header, found, "all", 0)[:16, :16], expected)
    assert np.array_equal(dense(header, found, "selected", 0), dense(header, found, "all", 0))


def test_brushes_select_exactly() -> None:
    columns = many()
    brushes = {"parameters.x": {"range": [0.25, 0.5]}, "parameters.act": {"values": ["tanh", 3.0]}}
    header, found = ask(columns, brushes=brushes, lines=ROWS)
    x, act = columns.arrays["parameters.x"], columns.arrays["parameters.act"]
    selected = (x >= 0.25) & (x <= 0.5) & ((act == 1) | (act == 2))
    assert header["total"] == ROWS
    assert header["selected"] == np.count_nonzero(selected) > 0
    assert found["sequences"].tolist() == np.flatnonzero(selected).tolist()
    assert dense(header, found, "selected", 2).sum() == header["selected"]
    assert dense(header, found, "all", 2).sum() == ROWS
    assert np.array_equal(
        dense(header, found, "selected", 2).sum(axis=1), np.bincount(act[selected], minlength=5)
    )


def test_a_value_is_not_another_of_the_same_look() -> None:
    header, _ = ask(many(), brushes={"parameters.act": {"values": [1, "3", "true", None]}})
    assert header["selected"] == 0


def test_an_open_range_leaves_out_trials_without_a_value() -> None:
    columns = many()
    header, _ = ask(columns, brushes={"value": {"range": [None, None]}})
    assert header["selected"] == np.count_nonzero(~np.isnan(columns.arrays["value"]))


def test_means_are_of_the_trials_that_have_the_metric() -> None:
    columns = many()
    header, found = ask(columns, names=("parameters.n", "parameters.act"))
    n, act, value = (columns.arrays[name] for name in ("parameters.n", "parameters.act", "value"))
    for cell, mean in zip(found["selected.0.cells"].tolist(), found["selected.0.mean"], strict=True):
        there = (n == 2 + cell // 5) & (np.where(act == 255, 4, act) == cell % 5)
        assert mean == pytest.approx(np.nanmean(value[there]), rel=1e-5)
    assert header["metric"] == {"min": np.nanmin(value), "max": np.nanmax(value)}


@pytest.mark.parametrize(
    ("snapshot", "mode"), [(MAXIMISED, None), (MINIMISED, None), (MAXIMISED, "minimize")]
)
def test_the_top_share_is_of_those_with_a_result(snapshot: GivenSnapshot, mode: str | None) -> None:
    columns = many()
    header, found = ask(columns, snapshot, top=0.05, lines=ROWS, mode=mode)
    value = columns.arrays["value"]
    known = np.sort(value[~np.isnan(value)])
    count = int(np.ceil(0.05 * len(known)))
    best = known[-count:] if snapshot is MAXIMISED and mode is None else known[:count]
    assert header["selected"] == count
    assert sorted(value[found["sequences"]]) == best.tolist()


def test_the_filter_is_what_all_is_of() -> None:
    columns = many()
    header, found = ask(columns, filter="status:FAILED", top=1.0)
    assert (header["total"], header["selected"]) == (50, 0)  # no selected trial has a result
    assert dense(header, found, "all", 0).sum() == 50
    assert header["metric"] == {"min": None, "max": None}
    assert len(found["selected.0.cells"]) == 0


def test_the_background_can_be_left_out() -> None:
    _, found = ask(many(), background=False)
    assert "selected.0.cells" in found and "all.0.cells" not in found


def test_what_was_kept_is_dropped_with_the_revision() -> None:
    columns = many()
    before, _ = ask(columns, filter="parameters.x>0.5")
    columns.arrays["parameters.x"] = np.zeros(ROWS)
    columns.revision += 1
    after, found = ask(columns, filter="parameters.x>0.5")
    assert before["total"] > 0 == after["total"]
    assert after["axes"][0]["bins"] == 1 and found["axis.0.all"].tolist() == [0, 0]


def test_odd_axes() -> None:
    columns = GivenColumns(
        3,
        {
            "parameters.same": [4.25] * 3,
            "parameters.none": [np.nan] * 3,
            "parameters.signed": [-1.0, 0.5, 1e300],
            "parameters.extreme": [-1.7e308, 0.0, 1.7e308],
        },
    )
    same = axis(columns, "parameters.same", bins=8)
    assert same.low < 4.25 < same.high and same.cells.tolist() == [0, 0, 0]
    assert axis(columns, "parameters.none", bins=8).cells.tolist() == [1, 1, 1]
    assert axis(columns, "parameters.signed", bins=8).cells.tolist() == [0, 0, 7]
    assert axis(columns, "parameters.extreme", bins=8).cells.max() < 8
    with pytest.raises(BadQuestion, match="cannot have a logarithmic axis"):
        axis(columns, "parameters.signed", log=True, bins=8)
    with pytest.raises(BadQuestion, match=r"there is no column parameters\.sam; did you mean"):
        axis(columns, "parameters.sam", bins=8)


def test_no_trials_at_all() -> None:
    columns = GivenColumns(
        0, {"parameters.x": [], "parameters.act": np.empty(0, np.uint8)}, categories={"parameters.act": []}
    )
    header, found = ask(columns, names=("parameters.x", "parameters.act"), top=0.5)
    assert (header["total"], header["selected"]) == (0, 0)
    assert found["all.0.cells"].tolist() == []
