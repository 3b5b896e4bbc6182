"""Orders to copy checkpoints from their hosts, and the hosts that must stay until they are carried out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from training_services.base import CheckpointLost, Origin

__all__ = ["NeededHosts", "UncommittedCopies", "Wanted"]


@dataclass(slots=True, eq=False)
class Wanted:
    """Checkpoint to be copied. ``moved_at``: time of its order or last progress, on the loop's clock."""

    job_id: str
    origin: Origin
    moved_at: float
    trouble: str | None = None

    @property
    def name(self) -> tuple[str, int]:
        return self.job_id, self.origin.number

    @property
    def age(self) -> tuple[int, int]:
        """Attempt and number of the checkpoint: later checkpoints of a trial have greater ones."""
        return self.origin.attempt, self.origin.number

    def lost(self, reason: str) -> CheckpointLost:
        """Return the fact that the checkpoint is lost on its host."""
        job_id, number = self.name
        return CheckpointLost(job_id=job_id, number=number, reason=reason, keeper_id=self.origin.keeper_id)

    def notice(self, trial_id: str) -> str:
        """Return the sentence that the transfer has failed and is tried again."""
        return (
            f"checkpoint {self.origin.number} of trial {trial_id} has not been copied to the server yet: "
            f"{self.trouble}"
        )

    def move(self) -> None:
        """Record that the transfer makes progress."""
        self.moved_at = asyncio.get_running_loop().time()


class NeededHosts:
    """Hosts that must stay, because of checkpoints to be copied, or of copies that are not committed yet."""

    def __init__(self) -> None:
        self._names: dict[str, set[tuple[str, int]]] = {}  # keeper of the host -> checkpoints

    def __contains__(self, keeper_id: object) -> bool:
        return keeper_id in self._names

    def add(self, wanted: Wanted) -> None:
        self._names.setdefault(wanted.origin.keeper_id, set()).add(wanted.name)

    def discard(self, wanted: Wanted) -> bool:
        """Remove a checkpoint. Return True if its host was needed for it, and is not needed any more."""
        keeper_id = wanted.origin.keeper_id
        names = self._names.get(keeper_id)
        if names is None or wanted.name not in names:
            return False
        names.discard(wanted.name)
        if not names:
            del self._names[keeper_id]
        return not names


class UncommittedCopies:
    """Complete copies of each trial's checkpoints, in their order, whose facts are not committed yet."""

    def __init__(self) -> None:
        self._copies: dict[str, list[Wanted]] = {}  # by trial

    def add(self, trial_id: str, wanted: Wanted) -> None:
        self._copies.setdefault(trial_id, []).append(wanted)

    def names(self) -> list[tuple[str, int]]:
        """Return the names of all copies."""
        return [copy.name for copies in self._copies.values() for copy in copies]

    def of(self, trial_id: str) -> list[Wanted]:
        return self._copies.get(trial_id, [])

    def pop(self, trial_id: str) -> list[Wanted]:
        """Remove and return the trial's copies."""
        return self._copies.pop(trial_id, [])

    def take(self, name: tuple[str, int]) -> list[Wanted]:
        """Remove the copy with this name, and earlier ones of its trial. Return them, the named one last."""
        for trial_id, copies in self._copies.items():
            for index, copy in enumerate(copies):
                if copy.name == name:
                    self._copies[trial_id] = copies[index + 1 :]
                    return copies[: index + 1]
        return []
