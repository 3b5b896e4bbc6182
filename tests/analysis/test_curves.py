"""Curves: the chosen lines, their points, and the band of all lines."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnimgr.analysis.curves import curves, thinned
from nnimgr.analysis.errors import BadQuestion
from nnimgr.store.bulk_runs import MetricPoint
from tests.analysis.given import FAILED, SUCCEEDED, GivenColumns, GivenSnapshot, unpack

TRIALS, STEPS = 20, 6


def value_of(trial: int, step: int) -> float:
    return trial + step / 10


def story(trials: int = TRIALS, steps: int = STEPS) -> list[tuple[int, MetricPoint]]:
    """Return points of trials that report in turn. The younger trial may come first."""
    order = [(step, trial) for step in range(steps) for trial in reversed(range(trials))]
    return [
        (number, MetricPoint(f"t{trial}", 1, step, value_of(trial, step)))
        for number, (step, trial) in enumerate(order, start=1)
    ]


def ask(
    columns: GivenColumns, snapshot: GivenSnapshot, **arguments: Any
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    return unpack(curves(columns, snapshot.taken, {"lines": 100, "points": 50, **arguments}))


def lines(found: dict[str, NDArray[Any]]) -> dict[int, list[tuple[float, float]]]:
    starts = found["line.start"].tolist()
    return {
        sequence: list(zip(found["x"][begin:end].tolist(), found["y"][begin:end].tolist(), strict=True))
        for sequence, begin, end in zip(found["line.sequence"].tolist(), starts, starts[1:], strict=False)
    }


def test_every_line_has_its_points() -> None:
    header, found = ask(GivenColumns(TRIALS), GivenSnapshot(points=story()))
    assert (header["total"], header["lines"], header["keys"]) == (TRIALS, TRIALS, ["default"])
    shown = lines(found)
    assert list(shown) == list(range(TRIALS))
    for trial, points in shown.items():
        assert points == [(step, pytest.approx(value_of(trial, step))) for step in range(STEPS)]


def test_the_band_is_of_all_that_match() -> None:
    columns = GivenColumns(TRIALS, status=[SUCCEEDED, FAILED] * (TRIALS // 2))
    header, found = ask(columns, GivenSnapshot(points=story()), filter="status:FAILED", lines=3)
    assert (header["total"], header["lines"]) == (TRIALS // 2, 3)
    assert found["band.x"].tolist() == list(range(STEPS))
    assert found["band.count"].tolist() == [TRIALS // 2] * STEPS
    for name, quantile in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9)):
        expected = [
            np.quantile([value_of(trial, step) for trial in range(1, TRIALS, 2)], quantile)
            for step in range(STEPS)
        ]
        assert found[f"band.{name}"] == pytest.approx(expected, rel=1e-5)


def test_a_band_of_many_steps_has_as_many_points_as_asked_for() -> None:
    points = [(step + 1, MetricPoint("t0", 1, step, float(step))) for step in range(1000)]
    _, found = ask(GivenColumns(1), GivenSnapshot(points=points), points=10)
    assert len(found["band.x"]) == 10
    assert found["band.count"].sum() == 1000
    assert found["band.p50"] == pytest.approx(found["band.x"], abs=1)


def test_few_lines_are_spread_over_the_experiment_and_wanted_ones_are_there() -> None:
    _, found = ask(GivenColumns(TRIALS), GivenSnapshot(points=story()), lines=3, sequences=[7, 1000])
    shown = found["line.sequence"].tolist()
    assert shown[0] == 0 and shown[-1] == TRIALS - 1 and len(shown) == 4 and 7 in shown


def test_nnis_filter_looks_at_one_step() -> None:
    snapshot = GivenSnapshot(points=story())
    header, found = ask(GivenColumns(TRIALS), snapshot, index=2, low=3.2, high=5.5)
    assert header["total"] == 3 and found["line.sequence"].tolist() == [3, 4, 5]
    header, _ = ask(GivenColumns(TRIALS), snapshot, index=2, high=5.5)
    assert header["total"] == 6
    header, found = ask(GivenColumns(TRIALS), snapshot, index=STEPS)
    assert header["total"] == 0 and len(found["band.x"]) == 0


def test_only_the_attempt_that_counts_is_shown() -> None:
    points = [
        (1, MetricPoint("t0", 1, 0, 1.0)),
        (2, MetricPoint("t0", 1, 1, 2.0)),
        (3, MetricPoint("t0", 2, 0, 10.0)),
    ]
    _, found = ask(GivenColumns(1, attempt=[2]), GivenSnapshot(points=points))
    assert lines(found) == {0: [(0, 10)]}


def test_what_is_no_finite_number_is_left_out() -> None:
    points = [
        (1, MetricPoint("t0", 1, 0, None)),
        (2, MetricPoint("t0", 1, 1, 5.0)),
        (3, MetricPoint("t1", 1, 0, None)),
    ]
    header, found = ask(GivenColumns(2), GivenSnapshot(points=points))
    assert header["total"] == 1 and lines(found) == {0: [(1, 5)]}


def test_steps_out_of_order_are_put_in_order() -> None:
    points = [(number, MetricPoint("t0", 1, step, float(step))) for number, step in enumerate((5, 1, 3), 1)]
    _, found = ask(GivenColumns(1), GivenSnapshot(points=points))
    assert lines(found) == {0: [(1, 1), (3, 3), (5, 5)]}


def test_new_metrics_are_added_to_what_is_known() -> None:
    columns, snapshot = GivenColumns(2), GivenSnapshot(points=story(2, 3), number=6)
    ask(columns, snapshot)
    grown = GivenColumns(3)
    columns.ids, columns.arrays, columns._rows = grown.ids, grown.arrays, 3
    columns.revision = snapshot.number = 9
    snapshot.points = [(7, MetricPoint("t2", 1, 0, 9.0)), (8, MetricPoint("t0", 1, 3, 0.3))]
    header, found = ask(columns, snapshot)
    assert header["total"] == 3
    assert [len(points) for points in lines(found).values()] == [4, 3, 1]


def test_another_database_is_read_anew() -> None:
    columns, snapshot = GivenColumns(2), GivenSnapshot(points=story(2, 3), number=6)
    ask(columns, snapshot)
    snapshot.points, snapshot.db_id = [(1, MetricPoint("t1", 1, 0, 5.0))], "another"
    columns.revision = 7
    _, found = ask(columns, snapshot)
    assert lines(found) == {1: [(0, 5)]}


def test_keys_of_metrics_that_are_objects() -> None:
    texts = [
        json.dumps({"default": 0.5, "loss": 2.0, "note": "x"}),
        '{"default": 0.6, "loss": NaN}',
        '{"default": 0.7, "loss": 1.0}',
    ]
    objects = [(number, ("t0", 1, number, text)) for number, text in enumerate(texts)]
    points = [(number, MetricPoint("t0", 1, number, 0.5)) for number in range(1, 4)]
    columns = GivenColumns(1)
    snapshot = GivenSnapshot(points=points, objects=[(number + 1, row) for number, row in objects])
    header, found = ask(columns, snapshot, key="loss")
    assert header["keys"] == ["default", "loss"]
    assert lines(found) == {0: [(0, 2.0), (2, 1.0)]}
    with pytest.raises(
        BadQuestion, match="no intermediate metric has the key note; valid are: default, loss"
    ):
        ask(columns, snapshot, key="note")


def test_an_experiment_without_metrics() -> None:
    header, found = ask(GivenColumns(0), GivenSnapshot())
    assert (header["total"], header["lines"]) == (0, 0)
    assert found["line.start"].tolist() == [0] and len(found["x"]) == 0


@pytest.mark.parametrize("points", [4, 5, 20, 101])
def test_thinning_keeps_both_ends_and_the_peaks(points: int) -> None:
    x = np.arange(1000.0)
    y = np.sin(x / 5)
    y[333], y[777] = 9.0, -9.0
    thin_x, thin_y = thinned(x, y, points)
    assert len(thin_x) <= points
    assert np.all(np.diff(thin_x) > 0)
    assert (thin_x[0], thin_x[-1]) == (0, 999)
    assert 9.0 in thin_y and -9.0 in thin_y
    assert np.array_equal(thin_y, y[thin_x.astype(int)])


def test_thinning_leaves_short_lines_alone() -> None:
    x = y = np.arange(10.0)
    assert thinned(x, y, 10) == (x, y)
