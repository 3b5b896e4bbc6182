"""Reads NNI's metrics file.

Each frame is ``ME``, a length in six digits, and the payload, which is not parsed.
"""

from __future__ import annotations

from trial_keeper.lean import NamedTuple

HEADER = 8
LARGEST = HEADER + 999_999


class Cut(NamedTuple):
    """Content of a piece of the file.

    ``end``: bytes consumed. ``bad``: no valid header follows. ``full``: the next frame would exceed a limit.
    """

    payloads: list[bytes]
    skipped: int
    end: int
    bad: bool
    full: bool


def cut(piece: bytes, *, skip: int, frames: int, size: int, first: bool) -> Cut:
    """Return the frames after the first ``skip``: at most ``frames`` frames with ``size`` bytes of payload.

    ``first``: return at least one frame. ``piece`` begins at a frame's header. An incomplete frame at the end
    of the piece is left for the next call.
    """
    payloads: list[bytes] = []
    at = skipped = 0
    length = len(piece)
    while at + HEADER <= length:
        digits = piece[at + 2 : at + HEADER]
        if not digits.isdigit() or piece[at : at + 2] != b"ME":
            return Cut(payloads, skipped, at, bad=True, full=False)
        count = int(digits)
        end = at + HEADER + count
        if end > length:
            break
        if skipped < skip:
            skipped += 1
        else:
            size -= count
            if (size < 0 or len(payloads) >= frames) and (payloads or not first):
                return Cut(payloads, skipped, at, bad=False, full=True)
            payloads.append(piece[at + HEADER : end])
        at = end
    return Cut(payloads, skipped, at, bad=False, full=False)


def count(piece: bytes) -> Cut:
    """Count the frames like ``cut`` with all frames skipped: return their number and the end of the last
    frame.
    """
    return cut(piece, skip=len(piece), frames=0, size=0, first=False)
