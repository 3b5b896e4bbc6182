"""Where a job runs, how an attempt ends, and why: types that facts about jobs and their members share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Cause", "EndReason", "Place"]


class EndReason(StrEnum):
    """Reason why an attempt ended, as reported by the keeper that ran the attempt."""

    EXITED = "exited"  # the command ended by itself, or by a signal that did not come from the keeper
    STOPPED = "stopped"  # the command ended after the keeper had signaled it because of a stop order
    # the attempt was stopped before its start, or its command could not be executed
    NEVER_STARTED = "never_started"
    LEASE = "lease"  # the host was without contact to the server for longer than the lease
    # the checkpoint from which the command was to continue is neither on the host nor on the server
    CHECKPOINT_LOST = "checkpoint_lost"


class Cause(StrEnum):
    """Cause for which an attempt failed or was lost. The number of retries depends on it."""

    USER_ERROR = "user_error"  # the command failed, or could not be executed
    OUT_OF_MEMORY = "out_of_memory"  # the kernel or the platform killed the command for lack of memory
    # the platform ended the host, because it needed the resources or the machine, or the attempt was stopped
    # for an experiment with a higher priority
    PREEMPTED = "preempted"
    INFRASTRUCTURE = "infrastructure"  # the host, its keeper or the attempt's files were lost
    TIMEOUT = "timeout"  # the attempt exceeded a time limit of the platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place where a job runs: a keeper, its directory (``instance``), its machine's boot, and the GPUs.

    If the machine is rebooted or the keeper's directory is replaced, the job is lost. ``address``: where the
    other members of a gang reach this one; "" for a job that is no member.
    """

    keeper_id: str
    instance: str
    boot_id: str
    gpus: tuple[int, ...] = ()
    address: str = ""
