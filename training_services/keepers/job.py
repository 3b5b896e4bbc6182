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
    MemberEnded,
    MemberLost,
    MemberStarted,
    Place,
    TrialJobSpec,
    job_of_member,
    origin_id,
)
from training_services.frames import read_frames
from training_services.keepers.request import Attempt, Final, Started

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
    member: int | None = None  # number of the gang's member that the job is; None: it is no part of a gang
    unheard: int = 0  # number of frames of a member that are not recorded, because it is not the leader

    @classmethod
    def adopted(cls, spec: TrialJobSpec) -> Job:
        """Return a job that was placed before the server's restart, in the state that is committed.

        Raises ValueError if the job has no place.
        """
        if spec.place is None:
            raise ValueError(f"job {spec.id} has no place")
        job = cls.placed(spec, spec.place.place, start_cmd=spec.place.cmd_seq)
        job.received = job.committed = max(job.base, spec.recorded)
        job.started, job.stopped = spec.started, spec.stop is not None
        return job

    @classmethod
    def placed(cls, spec: TrialJobSpec, place: Place, *, start_cmd: int) -> Job:
        """Return a new job at this place."""
        job = cls(id=spec.id, trial_id=spec.trial_id, place=place, start_cmd=start_cmd, last_cmd=start_cmd)
        job.member = spec.member
        if (origin := spec.origin) is not None:
            job.base = job.received = job.committed = origin.position
            job.reports, job.origin_id = origin.reports, origin_id(spec.id, spec.trial_id, origin)
            here = (place.keeper_id,) if origin.keeper_id == place.keeper_id else ()
            job.sources = (*here, *(() if spec.kept is None else (None,)))
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
            events.append(self._started(attempt.started))
        known = self.received - self.base
        fresh = attempt.payloads[known - attempt.first :] if attempt.first <= known else []
        if fresh and self.member:  # only the leader is heard
            self.unheard += len(fresh)
            self.received += len(fresh)
            self.committed = self.received
        elif fresh:
            events += read_frames(
                self.id, self.trial_id, position=self.received, payloads=fresh, reports=self.reports
            )
            self.received += len(fresh)
        if attempt.note is not None:
            events += self.note(attempt.note)
        return events

    def _started(self, started: Started) -> JobStarted | MemberStarted:
        if self.member is None:
            return JobStarted(job_id=self.id, started_at=started.at, pid=started.pid)
        return MemberStarted(job_id=self.whole, member=self.member, started_at=started.at, pid=started.pid)

    @property
    def whole(self) -> str:
        """Id of the gang's job whose member this is; the job's own id if it is no part of a gang."""
        return job_of_member(self.id)[0] if self.member else self.id

    def note(self, note: str) -> list[JobEvent]:
        """Return a note about the job as a list of events; empty if the same note was returned before."""
        if note in self.notes:
            return []
        self.notes.add(note)
        return [JobNoted(job_id=self.whole, note=note)]

    def has_all(self, attempt: Attempt) -> bool:
        """Return True if every frame that the keeper has reported so far was passed to the core."""
        return attempt.reach <= self.received - self.base

    def remarks(self, final: Final) -> list[JobEvent]:
        """Return a note if the keeper's metrics file has fewer metrics than the server has received, or if
        results of a member are not recorded.
        """
        if self.unheard:
            note = f"{self.unheard} reports of member {self.member} are not recorded: only rank 0 reports."
            return self.note(note)
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

    def finish(self, final: Final, reason: EndReason, *, acked_cmd: int) -> JobEnded | MemberEnded:
        """Record the job's end that its keeper has reported, and return the event.

        ``acked_cmd``: number of the last command that the keeper has carried out.
        """
        self.end = End.TOLD
        ended = JobEnded(
            job_id=self.whole,
            reason=reason,
            exit_code=final.code,
            signal=final.signal,
            metrics=final.frames,
            acked_cmd=acked_cmd,
            ended_at=final.at,
            message=final.message,
            cause=final.cause,
        )
        if self.member is None:
            return ended
        same = {name: getattr(ended, name) for name in ended.__slots__}
        return MemberEnded(member=self.member, unreached=final.unreached, **same)

    def lose(self, reason: str, cause: Cause) -> JobLost | MemberLost:
        """Record that the job was lost, so that its end will not be reported. Return the event."""
        self.end, self.lost = End.TOLD, True
        if self.member is None:
            return JobLost(job_id=self.id, reason=reason, cause=cause)
        return MemberLost(job_id=self.whole, member=self.member, reason=reason, cause=cause)
