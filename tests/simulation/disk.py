"""The files of an attempt: real bytes, of which power loss takes a tail that was not flushed.

As on ext4 and XFS, a file is cut, never filled with what nobody wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.kernel import Kernel
from trial_keeper import effects as fx
from trial_keeper import frames
from trial_keeper.claim import Claim, parse

PIECE = 700  # bytes read at once: small, so that every loop over pieces is walked
FLUSH_S = 8.0  # so long the shim may leave metrics unflushed


@dataclass(slots=True)
class Files:
    """What lies in the directory of one attempt."""

    claim: bytes | None = None
    parted: bool = False  # the claim was removed: what its shim adds goes to a file without a name
    metrics: bytes = b""
    grace: float | None = None
    parameters: dict[int, str] = field(default_factory=dict)  # further sets, as their records
    _sizes: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])  # when, how large

    def take(self, line: bytes) -> bool:
        """Claim the attempt; False: somebody else has."""
        if self.claim is not None:
            return False
        self.claim = line
        return True

    def add(self, line: bytes) -> None:
        if not self.parted:
            self.claim = (self.claim or b"") + line

    def spoil(self, kernel: Kernel) -> None:
        """A trial removes the claim, empties it, or puts something else in its place."""
        self.claim = kernel.random.choice(
            [None, b"", b"aborted elsewhere\n", b"shim 1 2 nowhere\n", b"hello\n"]
        )
        self.parted = self.claim != b""

    def read_claim(self) -> Claim | None:
        return None if self.claim is None else parse(self.claim)

    def write(self, content: bytes, now: float) -> None:
        self.metrics += content
        self._sizes.append((now, len(self.metrics)))

    def read(self, order: fx.Read) -> fx.Chunk:
        piece = self.metrics[order.offset : order.offset + PIECE]
        found = frames.cut(piece, skip=order.skip, frames=order.frames, size=order.size, first=order.first)
        rest = len(self.metrics) - order.offset
        more = found.full or (len(piece) < rest and found.end > 0)
        return fx.Chunk(
            found.payloads, found.skipped, order.offset + found.end, found.bad, more and not found.bad
        )

    def count(self, order: fx.Count, at: float) -> fx.Tally:
        piece = self.metrics[order.offset : order.offset + PIECE]
        found = frames.count(piece)
        more = len(piece) < len(self.metrics) - order.offset and found.end > 0 and not found.bad
        return fx.Tally(found.skipped, order.offset + found.end, found.bad, more, len(self.metrics), at)

    def lose_power(self, kernel: Kernel) -> bool:
        """Cut what was not flushed. True: metrics were lost."""
        chance = kernel.random
        if self.claim is not None and chance.random() < 0.4:
            kept = chance.randint(0, len(self.claim))
            self.claim = self.claim[:kept] if kept else None
            kernel.fault("claim torn", "disk")
        synced = max(size for at, size in self._sizes if at <= max(0.0, kernel.now - FLUSH_S))
        kept = chance.randint(synced, len(self.metrics)) if chance.random() < 0.6 else len(self.metrics)
        lost = kept < len(self.metrics)
        if lost:
            kernel.fault("metrics torn", "disk")
        self.metrics = self.metrics[:kept]
        self._sizes = [(0.0, len(self.metrics))]
        return lost
