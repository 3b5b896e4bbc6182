"""Order in which experiments get places: which experiment's turn is next."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Turns"]


@dataclass(slots=True)
class Turns:
    """Priorities of experiments, the weight of what their jobs hold, and their last placements."""

    _priorities: dict[str, int] = field(default_factory=dict)  # experiment -> its priority, if it is not 0
    _holds: dict[str, int] = field(default_factory=dict)  # experiment -> total weight of its jobs' resources
    _grants: dict[str, int] = field(default_factory=dict)  # experiment -> number of its last placement
    _granted: int = 0

    def priority(self, experiment_id: str) -> int:
        return self._priorities.get(experiment_id, 0)

    def prioritise(self, experiment_id: str, priority: int) -> bool:
        """Set the priority of the experiment. Return False if it had this priority."""
        if self.priority(experiment_id) == priority:
            return False
        self._priorities[experiment_id] = priority
        return True

    def forget_priority(self, experiment_id: str) -> None:
        self._priorities.pop(experiment_id, None)

    def is_higher(self, experiment_id: str, other: str) -> bool:
        """Return whether the priority of the experiment is higher than that of the other one."""
        return self.priority(experiment_id) > self.priority(other)

    def granted(self, experiment_id: str) -> None:
        """Record that a job of the experiment has got a place."""
        self._granted += 1
        self._grants[experiment_id] = self._granted

    def weigh(self, experiment_id: str, weight: int) -> None:
        """Add to the weight of what the experiment's jobs hold."""
        self._holds[experiment_id] = self._holds.get(experiment_id, 0) + weight
        if not self._holds[experiment_id]:
            del self._holds[experiment_id]

    def of(self, experiment_id: str) -> tuple[int, int, int]:
        """Return a key for sorting experiments by whose turn is next.

        First comes the highest priority; among equals, the experiment that holds the fewest resources; then
        the one whose last placement is the longest ago.
        """
        return (
            -self.priority(experiment_id),
            self._holds.get(experiment_id, 0),
            self._grants.get(experiment_id, 0),
        )
