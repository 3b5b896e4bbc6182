"""The places and times of attempts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnimgr.analysis.timeline import LOST, RETRIED, timeline
from nnimgr.store.bulk_runs import Attempt
from tests.analysis.given import RUNNING, SUCCEEDED, GivenColumns, GivenSnapshot, unpack

ORIGIN_US = int(GivenColumns(0).origin_at.timestamp() * 1e6)


def attempt(
    trial: int,
    begin: float | None,
    end: float | None,
    *,
    number: int = 1,
    host: str | None = "a",
    gpus: str | None = "[0]",
    why: str = "exited",
) -> Attempt:
    """Return an attempt. Times are seconds since the creation."""
    at = [None if second is None else ORIGIN_US + int(second * 1e6) for second in (begin, end)]
    return Attempt(f"t{trial}", number, host, gpus, at[0], at[0], at[1], None if end is None else why)


def ask(
    columns: GivenColumns, snapshot: GivenSnapshot, **arguments: Any
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    return unpack(timeline(columns, snapshot.taken, {"pixels": 100, **arguments}))


def bars(header: dict[str, Any], found: dict[str, NDArray[Any]]) -> list[tuple[Any, ...]]:
    """Return host, GPU, part, sequence, start and end of each bar, ordered by place and time."""
    shown = []
    for lane, start, end, sequence in zip(
        *(found[name].tolist() for name in ("lane", "start", "end", "sequence")), strict=True
    ):
        where = header["lanes"][lane]
        shown.append((where["keeperId"], where["gpu"], where["part"], sequence, start, end))
    return sorted(shown, key=lambda bar: (bar[0], bar[1] or 0, *bar[2:]))


def columns_for(rows: int, **given: Any) -> GivenColumns:
    return GivenColumns(rows, {"created": np.zeros(rows), **given})


def test_each_gpu_has_a_lane() -> None:
    attempts = [
        attempt(0, 0, 50),
        attempt(1, 50, 100),
        attempt(2, 10, 60, gpus="[0, 1]", host="b"),
        attempt(3, 0, 30, gpus="[]", host="local"),
    ]
    shown = bars(*ask(columns_for(4), GivenSnapshot(attempts=attempts)))
    assert shown == [
        ("a", 0, 0, 0, 0, 50),
        ("a", 0, 0, 1, 50, 100),
        ("b", 0, 0, 2, 10, 60),
        ("b", 1, 0, 2, 10, 60),
        ("local", None, 0, 3, 0, 30),
    ]


def test_attempts_that_share_a_place_are_side_by_side() -> None:
    attempts = [attempt(0, 0, 50), attempt(1, 10, 20), attempt(2, 20, 90), attempt(3, 60, 70)]
    shown = bars(*ask(columns_for(4), GivenSnapshot(attempts=attempts)))
    assert [(bar[2], bar[3]) for bar in shown] == [(0, 0), (0, 3), (1, 1), (1, 2)]


def test_what_is_narrower_than_a_pixel_is_merged() -> None:
    attempts = [attempt(number, number, number + 0.5) for number in range(100)]
    attempts.append(attempt(100, 100, 1000))
    status = [SUCCEEDED] * 101
    _, found = ask(columns_for(101, status=status), GivenSnapshot(attempts=attempts), pixels=100)
    assert len(found["start"]) == 11
    assert found["count"].tolist() == [10] * 10 + [1]
    assert found["busy"] == pytest.approx([5 / 9.5] * 10 + [1])
    assert found["sequence"].tolist() == [*range(0, 100, 10), 100]
    assert found["start"].tolist() == [*range(0, 100, 10), 100]


def test_a_window_shows_what_is_in_it() -> None:
    attempts = [attempt(number, 10 * number, 10 * number + 10) for number in range(10)]
    header, found = ask(columns_for(10), GivenSnapshot(attempts=attempts), begin=25, end=45)
    assert sorted(found["sequence"].tolist()) == [2, 3, 4]
    assert (header["from"], header["to"], header["begin"], header["end"]) == (25, 45, 0, 100)


def test_an_attempt_with_a_successor_says_what_became_of_it() -> None:
    attempts = [
        attempt(0, 0, 10, why="lost"),
        attempt(0, 10, 20, number=2),
        attempt(0, 20, 40, number=3),
    ]
    header, found = ask(columns_for(1, attempt=[3]), GivenSnapshot(attempts=attempts))
    (status,) = (column for column in header["columns"] if column["name"] == "status")
    order = np.argsort(found["attempt"])
    assert [status["categories"][code] for code in found["status"][order]] == [LOST, RETRIED, "SUCCEEDED"]


def test_what_runs_still_goes_on_to_now() -> None:
    attempts = [attempt(0, 10, None), attempt(1, None, None, host=None, gpus=None)]
    columns = columns_for(2, status=[RUNNING, 0])
    snapshot = GivenSnapshot(attempts=attempts)
    _, found = ask(columns, snapshot, now=ORIGIN_US / 1e6 + 75)
    assert (found["start"].tolist(), found["end"].tolist()) == ([10], [75])
    _, found = ask(columns, snapshot)  # without ``now``, at the time of the last fact
    assert found["end"].tolist() == [3600]


def test_the_queue_is_who_has_no_place_yet() -> None:
    attempts = [attempt(0, 10, 30), attempt(1, 30, 50), attempt(1, 60, 100, number=2)]
    columns = columns_for(3, created=[0, 0, 5], attempt=[1, 2, 1], ended=[30, 100, 20])
    _, found = ask(columns, GivenSnapshot(attempts=attempts), pixels=10)
    assert found["queue.at"].tolist() == [*range(10, 101, 10)]
    # The third trial ended without a place.
    assert found["queue.waiting"].tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert found["queue.running"].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1, 0]


def test_a_filter() -> None:
    attempts = [attempt(0, 0, 10), attempt(1, 10, 20)]
    _, found = ask(columns_for(2), GivenSnapshot(attempts=attempts), filter="sequence:1")
    assert found["sequence"].tolist() == [1]


def test_only_what_has_changed_is_read_again() -> None:
    columns = columns_for(2, status=[RUNNING, RUNNING])
    snapshot = GivenSnapshot(attempts=[attempt(0, 0, None), attempt(1, 0, None, gpus="[1]")])
    ask(columns, snapshot, now=ORIGIN_US / 1e6 + 5)
    snapshot.all_attempts = [attempt(0, 0, 40), attempt(1, 0, 50, gpus="[1]")]
    snapshot.changed_ids = {"t0"}
    columns.revision = snapshot.number = 2
    _, found = ask(columns, snapshot, now=ORIGIN_US / 1e6 + 90)
    assert found["end"].tolist() == [40, 90]


def test_nothing_has_run() -> None:
    header, found = ask(GivenColumns(0), GivenSnapshot())
    assert header["lanes"] == [] and len(found["start"]) == 0
