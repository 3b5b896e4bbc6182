"""Interface between a keeper service and the queue that places its jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from training_services.base import JobPlaced, JobWaiting, TrialJobSpec
from training_services.keepers.seat import KeeperSeat
from training_services.placement.needs import Capacity, GpuReading

__all__ = ["JobPlacing"]


class JobPlacing(Protocol):
    """Queue of the experiment's jobs without a place, and table of the seats (hosts with a keeper) that
    take jobs.

    Iteration yields the ids of the waiting jobs.
    """

    def __contains__(self, job_id: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def listen(self) -> None:
        """Start to place jobs."""

    def close(self) -> None:
        """Stop placing jobs."""

    def add(self, seat: KeeperSeat) -> None:
        """Allow the queue to place jobs on the seat."""

    def remove(self, seat: KeeperSeat) -> None:
        """Place no more jobs on the seat."""

    def ready(self, seat: KeeperSeat) -> None:
        """Offer the seat to waiting jobs: its keeper has called for the first time, or again after a
        silence.
        """

    def left(self, seat: KeeperSeat) -> None:
        """Offer the seat to waiting jobs, because a job has left the seat."""

    def reasons_changed(self) -> None:
        """Check all seats again, because the reasons why jobs wait may have changed on any of them."""

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        """Place the job, or queue it. Raises JobRejected if no seat can ever take it."""

    def withdraw(self, job_id: str) -> bool:
        """Remove the job from the queue. Return False if it is not there."""

    def hold(self, job_id: str, seat: KeeperSeat, gpus: tuple[int, ...]) -> None:
        """Record that the job had its place on the seat before the service was opened."""

    def release(self, job_id: str, seat: KeeperSeat) -> bool:
        """Free the resources that the job holds on the seat.

        The job has ended. Return False if it held nothing.
        """

    def told(self, seat: KeeperSeat, capacity: Capacity | None, gpus: GpuReading | None) -> None:
        """Record the capacity and the GPUs that the seat's keeper reports; None if it reports none."""
