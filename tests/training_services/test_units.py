"""Tests of durations, sizes and GPU lists in NNI's format."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from training_services.units import parse_duration, parse_gpu_indices, parse_size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30s", 30),
        ("10m", 600),
        ("0.5h", 1800),
        ("2d", 172800),
        ("2D", 172800),
        (" 1.5 H ", 5400),
        ("1.1m", 66),
        ("0.1s", 1),
        (90, 90),
        ("1e2s", 100),
    ],
)
def test_durations_are_rounded_up_to_seconds(written: Any, seconds: int) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written", ["30", "", "m", "3 weeks", "-1s", "inf s", "nans", 1.5, None, [1], 0, "0s", -3]
)
def test_what_is_no_duration_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_duration(written)


def test_a_duration_beyond_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 36500 days"):
        parse_duration("1e9d")


@pytest.mark.parametrize(
    ("written", "megabytes"),
    [("1gb", 1024), ("1.5GB", 1536), ("512mb", 512), ("1tb", 1048576), ("1kb", 1), ("1b", 1), (8192, 8192)],
)
def test_sizes_are_rounded_up_to_megabytes(written: Any, megabytes: int) -> None:
    assert parse_size(written) == megabytes


@pytest.mark.parametrize("written", ["8", "8 pb", "gb", 0, "0b", 1.5])
def test_what_is_no_size_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_size(written)


@pytest.mark.parametrize(
    ("written", "indices"), [("0,2", [0, 2]), (1, [1]), ([3, 1], [3, 1]), ("1, 0", [1, 0])]
)
def test_gpu_lists(written: Any, indices: list[int]) -> None:
    assert parse_gpu_indices(written) == indices


@pytest.mark.parametrize("written", ["a", "", [0, 0], [-1], "1,,2", True, [True], 1.5, {}])
def test_what_is_no_gpu_list_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_gpu_indices(written)
