"""Interface between a keeper service and the queue that decides on which host each job runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from training_services.base import JobPlaced, JobWaiting, KeptCopy, TrialJobSpec
from training_services.keepers.seat import KeeperSeat
from training_services.placement.needs import Capacity, GpuReading

__all__ = ["JobPlacing"]


class JobPlacing(Protocol):
    """Queue of the experiment's jobs that wait for a place, and table of the seats that take jobs.

    A seat is a host with its keeper. Iteration yields the ids of the waiting jobs.
    """

    def __contains__(self, job_id: object) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def listen(self) -> None:
        """Start to place waiting jobs when resources become free."""

    def close(self) -> None:
        """Stop placing jobs."""

    def add(self, seat: KeeperSeat) -> None:
        """Allow the queue to place jobs on this seat (a host with its keeper)."""

    def remove(self, seat: KeeperSeat) -> None:
        """Stop placing jobs on this seat (a host with its keeper)."""

    def ready(self, seat: KeeperSeat) -> None:
        """Offer the seat to waiting jobs, because its keeper has become ready or calls again after a
        silence.
        """

    def left(self, seat: KeeperSeat) -> None:
        """Offer the seat to waiting jobs, because another job has left the seat."""

    def reasons_changed(self) -> None:
        """Offer all seats to the waiting jobs again, because reasons for waiting may have changed."""

    def submit(self, job: TrialJobSpec) -> JobPlaced | JobWaiting:
        """Place the job, or add it to the queue. Raises JobRejected if no seat can ever take the job."""

    def copied(self, name: tuple[str, int], kept: KeptCopy) -> None:
        """Let the waiting jobs that continue from this checkpoint run on any seat, because the server has a
        copy.

        ``name``: the job that has saved the checkpoint, and its number.
        """

    def withdraw(self, job_id: str) -> bool:
        """Remove a waiting job from the queue. Return False if the queue does not have the job."""

    def hold(self, job: TrialJobSpec, seat: KeeperSeat, gpus: tuple[int, ...]) -> None:
        """Record that the job was placed on the seat before the server's restart."""

    def release(self, job_id: str, seat: KeeperSeat, *, heard: bool = True) -> bool:
        """Free the resources that an ended job holds on the seat. Return False if it held no resources.

        ``heard``: the core has heard of the end. Call it again with this if it had not.
        """

    def told(self, seat: KeeperSeat, capacity: Capacity | None, gpus: GpuReading | None) -> None:
        """Record the host's capacity and GPUs, as its keeper reports them. None: not part of this report."""
