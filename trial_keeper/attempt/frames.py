"""NNI's metrics file: frames ``ME``, six digits, so many bytes of payload. Cut by length, never parsed."""

from __future__ import annotations

from trial_keeper.lean import NamedTuple

HEADER = 8
LARGEST = HEADER + 999_999


class Cut(NamedTuple):
    """What a piece of the file holds.

    ``end``: bytes consumed; ``bad``: what follows is no header; ``full``: the next frame was over a limit.
    """

    payloads: list[bytes]
    skipped: int
    end: int
    bad: bool
    full: bool


def cut(piece: bytes, *, skip: int, frames: int, size: int, first: bool) -> Cut:
    """After ``skip`` frames, at most ``frames`` with ``size`` bytes of payload (``first``: but at least one).

    ``piece`` begins at a frame's header. An incomplete frame at its end is left alone.
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
    """As ``cut``, but all frames are skipped: how many there are and where the last one ends."""
    return cut(piece, skip=len(piece), frames=0, size=0, first=False)
