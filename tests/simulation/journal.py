"""The keeper's journal on a disk that may lose what was not flushed."""

from __future__ import annotations

from tests.simulation.kernel import Kernel
from trial_keeper import journal as product
from trial_keeper import memory
from trial_keeper.effects import Record


class Journal:
    """The file's bytes. All before ``synced`` survive power loss; what follows may be there, or torn."""

    def __init__(self) -> None:
        self.content = b""
        self.synced = 0
        self.shortened = False  # records that were durable are gone

    def load(self) -> list[Record]:
        """The sound records; a torn tail is cut."""
        records, end = product.parse(self.content)
        if product.damaged(self.content[end:]):
            raise AssertionError("what power loss has torn is taken for damage")
        self.content = self.content[:end]
        self.synced = min(self.synced, end)
        return records

    def rewrite(self, records: list[Record]) -> None:
        """Replaced by rename, durably."""
        self.content = b"".join(map(product.frame, records))
        self.synced = len(self.content)

    def compact(self) -> None:
        """The flushing thread writes the journal anew, as short as it can be."""
        records, _ = product.parse(self.content)
        self.rewrite(memory.fold(records))

    def append(self, record: Record) -> None:
        self.content += product.frame(record)

    def tear(self, record: Record, kernel: Kernel) -> None:
        """Only a part of the record is written."""
        frame = product.frame(record)
        self.content += frame[: kernel.random.randrange(len(frame))]

    def shorten(self, kernel: Kernel) -> None:
        """The file is cut, behind its first record; without that the keeper would be a new one."""
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
            self.content += bytes(lost)  # the length was written, the data was not
        if lost:
            kernel.fault("journal torn", "disk")
