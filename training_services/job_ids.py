"""Ids of jobs. A job is one attempt of a trial; its id names the experiment, the trial and the attempt."""

from __future__ import annotations

__all__ = ["experiment_of_job", "job_id_of", "trial_of_job"]


def job_id_of(experiment_id: str, trial_id: str, attempt: int) -> str:
    return f"{experiment_id}-{trial_id}-{attempt}"


def experiment_of_job(job_id: str) -> str:
    """Return the experiment's id, which is a part of a job's id. It may contain hyphens itself."""
    return job_id.rsplit("-", 2)[0]


def trial_of_job(job_id: str) -> tuple[str, int]:
    """Return the trial's id and the attempt's number, which are parts of a job's id."""
    _, trial_id, attempt = job_id.rsplit("-", 2)
    return trial_id, int(attempt)
