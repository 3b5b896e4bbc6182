"""Facts about the members of a gang: a job that runs on several hosts at once.

Member 0 is the leader. What happens to the whole job (JobStarted, JobEnded, JobLost) follows from these facts
(``nnimgr.rules.gangs``), so that nothing else has to know of members.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from training_services.outcomes import Cause, EndReason, Place

__all__ = [
    "FewerMembersWanted",
    "GangGathered",
    "MemberEnded",
    "MemberLost",
    "MemberPlace",
    "MemberStarted",
    "MembersStopped",
    "RoomForMembers",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPlace:
    """Place of a member other than the leader, and the number of the command that starts the member."""

    place: Place
    cmd_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStarted:
    """Fact: the member is there, and waits for the others. ``started_at`` is by the clock of its machine."""

    job_id: str
    member: int
    started_at: datetime
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangGathered:
    """Fact: all members are there, so the trial's command may run.

    ``orders``: numbers of the commands that tell this to members 1, 2 and so on. The leader waits until these
    members have joined it.
    """

    job_id: str
    orders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersStopped:
    """Fact: members were ordered to stop, because the job is to stop or another member has failed.

    ``orders``: number of each of these members, and of the command that stops it.
    """

    job_id: str
    orders: tuple[tuple[int, int], ...]
    grace: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEnded:
    """Fact: the member has ended, and none of its processes run.

    ``unreached``: it could not reach the leader, so the trial's command has not run. The other fields are
    those of JobEnded.
    """

    job_id: str
    member: int
    reason: EndReason
    exit_code: int | None
    signal: int | None
    metrics: int
    acked_cmd: int
    ended_at: datetime
    message: str | None = None
    cause: Cause | None = None
    unreached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLost:
    """Fact: the member was lost, and its end was never reported. The other fields are those of JobLost."""

    job_id: str
    member: int
    reason: str
    cause: Cause = Cause.INFRASTRUCTURE
    unproven: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomForMembers:
    """Fact: the job, a running gang, would get this number of members if it were placed again now."""

    job_id: str
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FewerMembersWanted:
    """Fact: the job, a running gang, has to continue with another attempt without the members ``leaving``,
    because a trial of the experiment ``by`` waits for their places. ``leaving``: numbers of these members.
    """

    job_id: str
    leaving: tuple[int, ...]
    by: str
