"""Ids of jobs and of their members.

A job is one attempt of a trial; its id names the experiment, the trial and the attempt. A job of a gang has
members on several hosts. Each member is run by a keeper under an id of its own: that of the job for the
leader (member 0), and the job's id with a suffix for the others.
"""

from __future__ import annotations

__all__ = ["experiment_of_job", "job_id_of", "job_of_member", "member_id_of", "next_attempt", "trial_of_job"]


def job_id_of(experiment_id: str, trial_id: str, attempt: int) -> str:
    return f"{experiment_id}-{trial_id}-{attempt}"


def next_attempt(job_id: str) -> str:
    """Return the id of the job that is the trial's next attempt."""
    trial_id, attempt = trial_of_job(job_id)
    return job_id_of(experiment_of_job(job_id), trial_id, attempt + 1)


def member_id_of(job_id: str, member: int) -> str:
    """Return the id under which a keeper runs this member of the job."""
    return job_id if member == 0 else f"{job_id}.{member}"


def job_of_member(member_id: str) -> tuple[str, int]:
    """Return the job's id and the member's number, which are parts of a member's id."""
    experiment_id, trial_id, last = member_id.rsplit("-", 2)
    attempt, _, member = last.partition(".")
    return f"{experiment_id}-{trial_id}-{attempt}", int(member or 0)


def experiment_of_job(job_id: str) -> str:
    """Return the experiment's id, which is a part of a job's id. It may contain hyphens itself."""
    return job_id.rsplit("-", 2)[0]


def trial_of_job(job_id: str) -> tuple[str, int]:
    """Return the trial's id and the attempt's number, which are parts of the id of a job or a member."""
    _, trial_id, last = job_id.rsplit("-", 2)
    return trial_id, int(last.partition(".")[0])
