"""Files of an attempt, as bytes in memory. Power loss removes their unflushed ends.

As on ext4 and XFS, a file is cut, but never filled with foreign bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.kernel import Kernel
from trial_keeper.attempt import frames
from trial_keeper.attempt.claim import Claim, parse
from trial_keeper.core import effects as fx

PIECE = 700  # bytes per read: so few that every loop over pieces is tested
SIZE = 40  # bytes of a checkpoint
FLUSH_S = 8.0  # longest time in seconds for which the shim leaves metrics unflushed


@dataclass(slots=True)
class Saved:
    """Folder of a checkpoint. ``step``: the trial's next step; ``state``: the state before it, None if torn.

    ``flushed``: its files are durable; ``named``: its name is durable.
    """

    step: int
    state: int | None
    flushed: bool = False
    named: bool = False


@dataclass(slots=True)
class Files:
    """Content of the directory of one attempt."""

    claim: bytes | None = None
    parted: bool = False  # the claim was removed; its shim now writes to a file without a name
    metrics: bytes = b""
    grace: float | None = None
    parameters: dict[int, str] = field(default_factory=dict)  # further parameter sets, as their records
    asks: bool = False  # the trial looks for requests to save its state
    save: bool = False  # it was asked to, and has not answered
    asked_at: float | None = None  # time of the request
    requests: int = 0  # number of times that the keeper has asked it, or has seen that it does not look
    checkpoints: dict[int, Saved] = field(default_factory=dict)
    # sizes of the metrics file: (time, bytes)
    _sizes: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])

    def take(self, line: bytes) -> bool:
        """Claim the attempt. Return False if it was claimed before."""
        if self.claim is not None:
            return False
        self.claim = line
        return True

    def add(self, line: bytes) -> None:
        if not self.parted:
            self.claim = (self.claim or b"") + line

    def spoil(self, kernel: Kernel) -> None:
        """Let a trial remove the claim, empty it, or replace its content."""
        self.claim = kernel.random.choice(
            [None, b"", b"aborted elsewhere\n", b"shim 1 2 nowhere\n", b"hello\n"]
        )
        self.parted = self.claim != b""

    def read_claim(self) -> Claim | None:
        return None if self.claim is None else parse(self.claim)

    def write(self, content: bytes, now: float) -> None:
        self.metrics += content
        self._sizes.append((now, len(self.metrics)))

    def free_number(self) -> int:
        """Return the number of the next checkpoint."""
        return 1 + max(self.checkpoints, default=0)

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
        """Cut what was not flushed. Return True if metrics were lost."""
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
        if self.checkpoints:
            self._lose_saved(kernel)
        return lost

    def _lose_saved(self, kernel: Kernel) -> None:
        """Tear checkpoints whose files were not flushed, and remove some whose names were not."""
        for number, saved in list(self.checkpoints.items()):
            if not saved.flushed and kernel.random.random() < 0.7:
                kernel.fault("checkpoint torn", "disk")
                saved.state = None
            if not saved.named and kernel.random.random() < 0.7:
                kernel.fault("checkpoint without a name", "disk")
                del self.checkpoints[number]
            saved.flushed = saved.named = True
