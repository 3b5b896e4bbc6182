"""State of one job of a keeper: what the keeper has reported, and which part of it is committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from training_services.base import (
    Cause,
    CheckpointLost,
    EndReason,
    JobEnded,
    JobEvent,
    JobLost,
    JobNoted,
    JobStarted,
    KeptCopy,
    Origin,
    Place,
    TrialJobSpec,
    origin_id,
)
from training_services.frames import read_frames
from training_services.keepers.request import Attempt, Final

__all__ = ["End", "Job"]


class End(Enum):
    """Progress of a job's end: not reported, reported to the core, or committed."""

    NONE = auto()
    TOLD = auto()  # the event of the end was passed to the core
    COMMITTED = auto()


@dataclass(slots=True)
class Job:
    """Job that was placed on a keeper.

    ``commands`` has the numbers of all commands for the job; ``start_cmd`` is the number of its start.
    """

    id: str
    trial_id: str
    place: Place
    start_cmd: int
    last_cmd: int
    commands: list[int] = field(default_factory=list)
    sought: bool = False  # True: the start was sent again because the keeper did not know the job
    # Number of the first frame of the job, above 0 if the job continues from a checkpoint. The keeper counts
    # the frames of the job's own metrics file from 0; the server counts the same frames from ``base``.
    base: int = 0
    reports: int = 0  # number of intermediate results before the job
    # Copies of the checkpoint from which the job continues: (keeper of the host, or None for the server's)
    sources: tuple[str | None, ...] = ()
    origin_id: tuple[str, int] = ("", 0)  # job and number of this checkpoint
    received: int = 0  # number of metric frames passed to the core, and of the frames before the job
    committed: int = 0  # number of metric frames that the core has committed, likewise
    started: bool = False  # True: the start was reported to the core
    stopped: bool = False  # True: the job was ordered to stop
    lost: bool = False  # True: the job was lost, so its commands are sent as nops, except a stop
    astray: bool = False  # True: the job counts as lost, but there is no proof, so it may still run
    end: End = End.NONE
    notes: set[str] = field(default_factory=set)

    @classmethod
    def adopted(cls, spec: TrialJobSpec) -> Job:
        """Return a job that was placed before the server's restart, in the state that is committed.

        Raises ValueError if the job has no place.
        """
        if spec.place is None:
            raise ValueError(f"job {spec.id} has no place")
        place, start_cmd = spec.place.place, spec.place.cmd_seq
        job = cls.placed(
            spec.id, spec.trial_id, place, start_cmd=start_cmd, origin=spec.origin, kept=spec.kept
        )
        job.received = job.committed = max(job.base, spec.recorded)
        job.started, job.stopped = spec.started, spec.stop is not None
        return job

    @classmethod
    def placed(
        cls,
        job_id: str,
        trial_id: str,
        place: Place,
        *,
        start_cmd: int,
        origin: Origin | None,
        kept: KeptCopy | None,
    ) -> Job:
        """Return a new job at this place. ``origin``: checkpoint from which the job continues, or None.

        ``kept``: the server's copy of this checkpoint, or None.
        """
        job = cls(id=job_id, trial_id=trial_id, place=place, start_cmd=start_cmd, last_cmd=start_cmd)
        if origin is not None:
            job.base = job.received = job.committed = origin.position
            job.reports, job.origin_id = origin.reports, origin_id(job_id, trial_id, origin)
            here = (place.keeper_id,) if origin.keeper_id == place.keeper_id else ()
            job.sources = (*here, *(() if kept is None else (None,)))
        return job

    @property
    def is_open(self) -> bool:
        """True as long as the job's end was not reported to the core."""
        return self.end is End.NONE

    def report(self, attempt: Attempt) -> list[JobEvent]:
        """Record what the keeper reports about this attempt, except its end. Return the new events."""
        events: list[JobEvent] = []
        if attempt.started is not None and not self.started:
            self.started = True
            started = attempt.started
            events.append(JobStarted(job_id=self.id, started_at=started.at, pid=started.pid))
        known = self.received - self.base
        fresh = attempt.payloads[known - attempt.first :] if attempt.first <= known else []
        if fresh:
            events += read_frames(
                self.id, self.trial_id, position=self.received, payloads=fresh, reports=self.reports
            )
            self.received += len(fresh)
        if attempt.note is not None:
            events += self.note(attempt.note)
        return events

    def note(self, note: str) -> list[JobEvent]:
        """Return a note about the job as a list of events; empty if the same note was returned before."""
        if note in self.notes:
            return []
        self.notes.add(note)
        return [JobNoted(job_id=self.id, note=note)]

    def has_all(self, attempt: Attempt) -> bool:
        """Return True if every frame that the keeper has reported so far was passed to the core."""
        return attempt.reach <= self.received - self.base

    def missing(self, final: Final) -> list[JobEvent]:
        """Return a note if the keeper's metrics file has fewer metrics than the server has received."""
        lost = self.received - self.base - final.frames
        if lost <= 0:
            return []
        note = f"{lost} metrics were lost on the host's disk; the server has recorded them."
        return [JobNoted(job_id=self.id, note=note)]

    def lost_origin(self, reason: str) -> list[JobEvent]:
        """Return events about the loss of the checkpoint from which the job was to continue."""
        job_id, number = self.origin_id
        return [
            CheckpointLost(job_id=job_id, number=number, reason=reason, keeper_id=keeper_id)
            for keeper_id in self.sources
        ]

    def finish(self, final: Final, reason: EndReason, *, acked_cmd: int) -> JobEnded:
        """Record the job's end that its keeper has reported, and return the event.

        ``acked_cmd``: number of the last command that the keeper has carried out.
        """
        self.end = End.TOLD
        return JobEnded(
            job_id=self.id,
            reason=reason,
            exit_code=final.code,
            signal=final.signal,
            metrics=final.frames,
            acked_cmd=acked_cmd,
            ended_at=final.at,
            message=final.message,
            cause=final.cause,
        )

    def lose(self, reason: str, cause: Cause) -> JobLost:
        """Record that the job was lost, so that its end will not be reported. Return the event."""
        self.end, self.lost = End.TOLD, True
        return JobLost(job_id=self.id, reason=reason, cause=cause)
