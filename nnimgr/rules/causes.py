"""Causes for which attempts fail or are lost, and the number of retries that a trial has for each cause."""

from __future__ import annotations

from nnimgr.rules.facts import Cause, EndReason, JobEnded, Limits, MemberEnded
from nnimgr.rules.state import TrialState

__all__ = ["LOSSES", "cause_of", "counted_as", "grows", "retries"]

# The command is not to blame, so the tuner hears of the trial only when no retry is left.
LOSSES = frozenset({Cause.INFRASTRUCTURE, Cause.PREEMPTED})


def cause_of(end: JobEnded | MemberEnded, *, stopped: bool) -> Cause | None:
    """Return the cause of an attempt's failure; None if the attempt, or this member of it, has not failed.

    ``stopped``: the core had ordered the attempt to stop.
    """
    match end.reason:
        case EndReason.EXITED if end.exit_code != 0:
            return end.cause or Cause.USER_ERROR
        case EndReason.NEVER_STARTED if not stopped:
            return end.cause or Cause.USER_ERROR
        case EndReason.LEASE:
            return Cause.INFRASTRUCTURE
    return None


def grows(limits: Limits, trial: TrialState, cause: Cause) -> bool:
    """Return whether the trial's next attempt gets more memory, because the last one ran out of memory."""
    growth = limits.memory_growth
    return cause is Cause.OUT_OF_MEMORY and growth is not None and trial.memory_attempts < growth.steps


def counted_as(limits: Limits, trial: TrialState, cause: Cause) -> Cause:
    """Return the cause whose number of retries also limits the retries for ``cause``."""
    if cause is Cause.TIMEOUT:
        return Cause.USER_ERROR
    if cause is Cause.OUT_OF_MEMORY and limits.max_memory_attempts is None:
        return cause if grows(limits, trial, cause) else Cause.USER_ERROR
    return cause


def retries(limits: Limits, trial: TrialState, cause: Cause) -> tuple[int, int | None]:
    """Return the number of retries that the trial has had for this cause, and the maximum; None: no limit.

    Retries with more memory than before are not limited. They end when the memory no longer grows.
    """
    if grows(limits, trial, cause):
        return 0, None
    match counted_as(limits, trial, cause):
        case Cause.PREEMPTED:
            return trial.preempted_attempts, limits.max_preempted_attempts
        case Cause.INFRASTRUCTURE:
            return trial.lost_attempts, limits.max_lost_attempts
        case Cause.OUT_OF_MEMORY:
            grown = 0 if limits.memory_growth is None else limits.memory_growth.steps
            return trial.memory_attempts - grown, limits.max_memory_attempts
    return trial.failed_attempts, limits.max_failed_attempts
