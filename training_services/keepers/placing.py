"""Interface between a keeper service and the queue that places its jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from training_services.base import JobPlaced, JobWaiting, TrialJobSpec
from training_services.keepers.seat import KeeperSeat
from training_services.placement.needs import Capacity, GpuReading

__all__ = ["JobPlacing"]


class JobPlacing(Protocol):
    """Queue of the jobs of one experiment that have no place yet, with the seats that may take them.

    Iteration yields the ids of the waiting jobs.
    """

    def __contains__(self, job_id: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def listen(self) -> None:
        """Start to place jobs."""

    def close(self) -> None:
        """Stop placing jobs."""

    def add(self, seat: KeeperSeat) -> None:
        """Let the seat take jobs."""

    def remove(self, seat: KeeperSeat) -> None:
        """Let the seat take no more jobs."""

    def ready(self, seat: KeeperSeat) -> None:
        """Ask the seat again: its keeper has called for the first time, or again after a silence."""

    def left(self, seat: KeeperSeat) -> None:
        """Ask the seat again: a job has left it."""

    def reasons_changed(self) -> None:
        """Ask all seats again: the reasons why jobs wait may have changed anywhere."""

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        """Place the job, or queue it. Raises JobRejected if no seat can ever take it."""

    def withdraw(self, job_id: str) -> bool:
        """Remove the job from the queue. Return False if it is not there."""

    def hold(self, job_id: str, seat: KeeperSeat, gpus: tuple[int, ...]) -> None:
        """Record that the job already had its place on the seat before the service was opened."""

    def release(self, job_id: str, seat: KeeperSeat) -> bool:
        """Free what the job holds on the seat; nothing of the job runs. Return False if it held nothing."""

    def told(self, seat: KeeperSeat, capacity: Capacity | None, gpus: GpuReading | None) -> None:
        """Record the capacity and the GPUs that the seat's keeper reports; None if it reports none."""
