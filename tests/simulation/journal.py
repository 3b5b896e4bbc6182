"""Journal of the keeper on a disk that may lose data that was not flushed."""

from __future__ import annotations

from tests.simulation.kernel import Kernel
from trial_keeper.actions import journal as product
from trial_keeper.core import recovery
from trial_keeper.core.records import Record


class Journal:
    """Bytes of the file. Bytes before ``synced`` survive power loss; later bytes may survive, or in part."""

    def __init__(self) -> None:
        self.content = b""
        self.synced = 0
        self.shortened = False  # durable records were removed

    def load(self) -> list[Record]:
        """Return the valid records, and cut a torn end."""
        records, end = product.parse(self.content)
        if product.damaged(self.content[end:]):
            raise AssertionError("what power loss has torn is taken for damage")
        self.content = self.content[:end]
        self.synced = min(self.synced, end)
        return records

    def rewrite(self, records: list[Record]) -> None:
        """Replace the journal by rename, durably."""
        self.content = b"".join(map(product.frame, records))
        self.synced = len(self.content)

    def compact(self) -> None:
        """Rewrite the journal in its shortest form, as the flushing thread does."""
        records, _ = product.parse(self.content)
        self.rewrite(recovery.fold(records))

    def append(self, record: Record) -> None:
        self.content += product.frame(record)

    def tear(self, record: Record, kernel: Kernel) -> None:
        """Write only a part of the record."""
        frame = product.frame(record)
        self.content += frame[: kernel.random.randrange(len(frame))]

    def shorten(self, kernel: Kernel) -> None:
        """Cut the file after its first record. Without that record the keeper would be a new one."""
        first = product.size(self.content)
        longest = min(400, len(self.content) - first)
        if self.content and longest > 0:
            kernel.fault("journal shortened", "disk")
            self.content = self.content[: len(self.content) - kernel.random.randint(1, longest)]
            self.synced = min(self.synced, len(self.content))
            self.shortened = True

    def lose_power(self, kernel: Kernel) -> None:
        kept = kernel.random.randint(self.synced, len(self.content))
        lost = len(self.content) - kept
        self.content = self.content[:kept]
        if lost and kernel.random.random() < 0.3:
            self.content += bytes(lost)  # the length was written, but not the data
        if lost:
            kernel.fault("journal torn", "disk")
