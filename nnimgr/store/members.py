"""Members of gangs, as the table of jobs stores them: one JSON text for each job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from nnimgr import codec
from nnimgr.rules.state import JobState, MemberState

__all__ = ["MemberRow", "read_members", "stored_members"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """Member of a gang. ``end_reason``: an EndReason, or "lost"; ``message``: why it has ended."""

    keeper_id: str
    gpus: list[int]
    started_at: datetime | None = None
    pid: int | None = None
    ended_at: datetime | None = None
    end_reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str | None = None


def stored_members(job: JobState) -> str | None:
    """Return the text to store; None if the job has no members."""
    return codec.dumps([codec.encode(_row(member)) for member in job.members]) if job.members else None


def read_members(text: str | None) -> tuple[MemberRow, ...]:
    """Return the members of a job, the leader first; none if it is no gang's job."""
    return () if text is None else codec.decode(tuple[MemberRow, ...], codec.loads(text))


def _row(member: MemberState) -> MemberRow:
    end = member.ended
    return MemberRow(
        keeper_id=member.place.keeper_id,
        gpus=list(member.place.gpus),
        started_at=member.started_at,
        pid=member.pid,
        ended_at=None if end is None else end.ended_at,
        end_reason=str(end.reason) if end else ("lost" if member.lost else None),
        exit_code=None if end is None else end.exit_code,
        signal=None if end is None else end.signal,
        message=end.message if end else member.lost.reason if member.lost else None,
    )
