"""Tests of the parser of NNI's frames."""

from __future__ import annotations

import pytest

from tests.trial_keeper.harness import frame
from trial_keeper.attempt import frames

THREE = frame(b"a\n") + frame(b"") + frame(b"ccc\n")


def cut(piece: bytes, **limits: int) -> frames.Cut:
    wanted = {"skip": 0, "frames": 100, "size": 1000, **limits}
    return frames.cut(piece, **wanted, first=True)


def test_frames_are_cut_by_length() -> None:
    assert cut(THREE) == frames.Cut([b"a\n", b"", b"ccc\n"], 0, len(THREE), bad=False, full=False)


@pytest.mark.parametrize("missing", range(1, 12))
def test_an_incomplete_frame_waits(missing: int) -> None:
    found = cut(THREE[:-missing])
    assert (found.payloads, found.end, found.bad) == ([b"a\n", b""], 18, False)


def test_a_payload_may_look_like_a_header() -> None:
    payload = b"ME000003xyz\nME9"
    assert cut(frame(payload) + frame(b"b")).payloads == [payload, b"b"]


@pytest.mark.parametrize(
    "header", [b"XX000001", b"ME00001x", b"ME+00001", b"ME1_0000", b"ME  0001", b"\0" * 8]
)
def test_what_is_no_header_ends_the_reading(header: bytes) -> None:
    found = cut(frame(b"a") + header + b"rest")
    assert (found.payloads, found.end, found.bad) == ([b"a"], 9, True)


def test_limits_leave_the_next_frame() -> None:
    assert cut(THREE, frames=1) == frames.Cut([b"a\n"], 0, 10, bad=False, full=True)
    assert cut(THREE, size=3).payloads == [b"a\n", b""]
    assert cut(THREE, frames=3).full is False


def test_the_first_frame_is_taken_whatever_its_size_if_it_must_be() -> None:
    assert cut(THREE, size=1).payloads == [b"a\n"]
    assert frames.cut(THREE, skip=0, frames=9, size=1, first=False) == frames.Cut(
        [], 0, 0, bad=False, full=True
    )


def test_skipped_frames_cost_no_room() -> None:
    assert cut(THREE, skip=2, frames=1) == frames.Cut([b"ccc\n"], 2, len(THREE), bad=False, full=False)


def test_counting_takes_all() -> None:
    assert frames.count(THREE + b"ME0") == frames.Cut([], 3, len(THREE), bad=False, full=False)


def test_the_largest_frame_of_the_protocol_is_read() -> None:
    piece = frame(b"x" * 999_999)
    assert len(piece) == frames.LARGEST
    assert cut(piece, size=1 << 20).end == len(piece)
