"""The arithmetic of benchmark rows, and their texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.report import COLUMNS, Better, Figure, Row, emit, table


def row(value: float | None = 1.0, **given: Any) -> Row:
    return Row(**({"name": "a rate", "value": value, "unit": "per s", "better": Better.MORE} | given))


@pytest.mark.parametrize(
    ("value", "limit", "better", "ok"),
    [
        (0.5, 0.5, Better.MORE, True),
        (0.49, 0.5, Better.MORE, False),
        (2.0, 2.0, Better.LESS, True),
        (2.1, 2.0, Better.LESS, False),
        (None, 2.0, Better.LESS, False),
        (2.1, None, Better.LESS, None),
    ],
)
def test_a_limit_holds(value: float | None, limit: float | None, better: Better, ok: bool | None) -> None:
    assert row(value, limit=limit, better=better).ok is ok


def test_the_ratio_is_the_share_of_the_limit() -> None:
    assert row(0.6, limit=0.5).ratio == pytest.approx(1.2)
    assert row(1.0, limit=4.0, better=Better.LESS).ratio == 0.25
    assert row(1.0).ratio is None
    assert row(None, limit=1.0).ratio is None


@pytest.mark.parametrize(
    ("better", "ours", "theirs", "times"),
    [
        (Better.MORE, 100.0, 2.0, 50.0),
        (Better.LESS, 0.5, 5.0, 10.0),
        (Better.LESS, 5.0, 0.5, 0.1),
        (Better.MORE, 100.0, None, None),
        (Better.MORE, None, 2.0, None),
        (Better.LESS, 0.0, 2.0, None),
    ],
)
def test_times_better_than_a_peer(
    better: Better, ours: float | None, theirs: float | None, times: float | None
) -> None:
    assert row(ours, better=better).times_better(Figure("peer", theirs)) == times


def test_a_row_is_one_line_of_json() -> None:
    made = row(
        123.456789,
        limit=100.0,
        details={"raw_per_s": 200.04999, "trials": 600},
        peers=(Figure("slow", 2.0), Figure("absent", None, "peer not installed")),
    )
    found = json.loads(made.json())
    assert "\n" not in made.json()
    assert found["value"] == 123.5
    assert found["ok"] is True
    assert found["raw_per_s"] == 200.0
    assert found["trials"] == 600
    assert found["peers"] == [
        {"peer": "slow", "value": 2.0, "times_better": 61.73},
        {"peer": "absent", "value": None, "times_better": None, "note": "peer not installed"},
    ]


def test_the_sentence_says_limit_and_peers() -> None:
    made = row(30.0, limit=50.0, peers=(Figure("slow", 2.0), Figure("absent", None, "peer not installed")))
    assert made.sentence() == (
        "a rate: 30 per s; at least 50: DOES NOT HOLD; slow: 2 (15 times); absent: peer not installed"
    )
    assert row(None, limit=1, note="failed: it broke").sentence() == (
        "a rate: not measured (failed: it broke); at least 1: DOES NOT HOLD"
    )


def test_the_table_has_a_line_for_each_row_and_no_stray_bars() -> None:
    lines = table([row(1234.5, details={"runs": 3}), row(0.25, note="a | b")]).splitlines()
    assert len(lines) == 4
    assert lines[0] == "| " + " | ".join(COLUMNS) + " |"
    assert lines[2] == "| a rate | 1,230 per s |  |  | runs 3 |  |"
    assert all(line.count("|") == len(COLUMNS) + 1 for line in lines)


def test_emit_prints_json_to_one_stream_and_a_sentence_to_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emit(row(1.0))
    printed = capsys.readouterr()
    assert json.loads(printed.out)["name"] == "a rate"
    assert printed.err == "a rate: 1 per s\n"
