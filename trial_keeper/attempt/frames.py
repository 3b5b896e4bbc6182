"""Reads the metrics file in which NNI's SDK stores a trial's metrics, one frame for each metric.

Each frame consists of ``ME``, the length of the payload in six digits, and the payload, which is not parsed.
"""

from __future__ import annotations

from trial_keeper.lean import NamedTuple

HEADER = 8
LARGEST = HEADER + 999_999


class Cut(NamedTuple):
    """Frames that were found in a piece of the metrics file.

    ``skipped``: number of frames passed over. ``end``: position after the last frame. ``bad``: no frame
    header is at ``end``. ``full``: the next frame would exceed the caller's limits.
    """

    payloads: list[bytes]
    skipped: int
    end: int
    bad: bool
    full: bool


def cut(piece: bytes, *, skip: int, frames: int, size: int, first: bool) -> Cut:
    """Return the frames in ``piece`` after the first ``skip`` frames, within the limits of the caller.

    The limits are ``frames`` frames and ``size`` bytes of payload. With ``first``, at least one frame is
    returned, whatever its size. ``piece`` must begin at a frame's header. If it ends in an incomplete frame,
    the caller has to read that frame again.
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
    """Count the frames in ``piece``.

    Return the number as ``skipped``, and the position after them as ``end``.
    """
    return cut(piece, skip=len(piece), frames=0, size=0, first=False)
