"""Table of the placed jobs of an experiment, and the seat of each (a seat is a host with its keeper)."""

from __future__ import annotations

from training_services.keepers.placing import JobPlacing
from training_services.keepers.seat import KeeperSeat

__all__ = ["Placements"]


class Placements:
    """Table of the seats (hosts with keepers) on which jobs were placed, by job id.

    ``queue`` gives places that become free to waiting jobs.
    """

    def __init__(self, queue: JobPlacing) -> None:
        self._queue = queue
        self._seats: dict[str, KeeperSeat] = {}

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._seats

    def __len__(self) -> int:
        return len(self._seats)

    def get(self, job_id: str) -> KeeperSeat | None:
        return self._seats.get(job_id)

    def put(self, job_id: str, seat: KeeperSeat) -> None:
        """Record that the job was placed on the seat."""
        self._seats[job_id] = seat
        seat.jobs.add(job_id)

    def release(self, job_id: str, seat: KeeperSeat, *, heard: bool = True) -> None:
        """Free the place of an ended job on the seat, and give it to a waiting job.

        ``heard``: the core has heard of the end.
        """
        if self._queue.release(job_id, seat, heard=heard):
            self._queue.left(seat)

    def release_all(self) -> None:
        """Free the places of all jobs, without giving them to waiting jobs."""
        for job_id, seat in self._seats.items():
            self._queue.release(job_id, seat)

    def release_detached(self) -> None:
        """Free the places that a service opened later does not take over, because nobody would free them.

        They are those of jobs whose ends are committed, but that may still run, and those of jobs whose
        starts were never committed.
        """
        for job_id, seat in self._seats.items():
            if job_id in seat.closing or not seat.link.jobs.is_ordered(job_id):
                self._queue.release(job_id, seat)

    def forget_ended(self, job_id: str, seat: KeeperSeat) -> None:
        """Remove an ended job from the table if its keeper needs no more commands for it."""
        if seat.link.jobs.forget_ended(job_id):
            self.release(job_id, seat)
            self._seats.pop(job_id, None)
            seat.jobs.discard(job_id)
            seat.closing.pop(job_id, None)

    def forget_all(self, seat: KeeperSeat) -> None:
        """Remove all jobs of a seat from the table, because the seat is no longer used."""
        for job_id in seat.jobs:
            self._queue.release(job_id, seat)
            self._seats.pop(job_id, None)
