"""Reads the output of squeue, and says in sentences what it shows. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from training_services.base import Cause

__all__ = ["FORMAT", "End", "Row", "Table", "doubt_of", "end_of", "parse", "parse_left", "why_pending"]

# id, name, state, reason, time left, partition, priority, nodes; the comment is last, as it may have any text
FORMAT = "%i|%j|%T|%r|%L|%P|%Q|%N|%k"
PENDING = "PENDING"
NODE_FAIL, FAILED = "NODE_FAIL", "FAILED"
_ALIVE = {
    PENDING, "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT",
    "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REVOKED",
}  # fmt: skip
_ENDS = {
    "COMPLETED": ("has ended", Cause.INFRASTRUCTURE),
    "CANCELLED": ("was canceled (scancel)", Cause.PREEMPTED),
    FAILED: ("has ended with an error", Cause.INFRASTRUCTURE),
    "TIMEOUT": ("has reached its time limit", Cause.PREEMPTED),
    "DEADLINE": ("has reached its deadline", Cause.PREEMPTED),
    "PREEMPTED": ("was preempted by Slurm", Cause.PREEMPTED),
    "OUT_OF_MEMORY": ("was ended because it ran out of memory", Cause.OUT_OF_MEMORY),
    "BOOT_FAIL": ("was ended because its node did not boot", Cause.INFRASTRUCTURE),
    NODE_FAIL: ("was ended because its node failed", Cause.INFRASTRUCTURE),
}
_REASONS = {
    "Resources": "the nodes that it needs are in use",
    "Priority": "jobs with a higher priority come first",
    "Dependency": "it depends on another job",
    "BeginTime": "its begin time has not come",
    "JobHeldUser": "its user holds it (scontrol release)",
    "JobHeldAdmin": "an administrator holds it",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition takes no jobs",
    "PartitionConfig": "it asks for what the nodes of the partition do not have",
    "PartitionNodeLimit": "it asks for more than the partition allows",
    "PartitionTimeLimit": "timeLimit is longer than the partition allows",
    "ReqNodeNotAvail": "the nodes that it needs are not available",
    "NodeDown": "a node that it needs is down",
    "Licenses": "it waits for a license",
    "Reservation": "it waits for its reservation",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "QOSMaxWallDurationPerJobLimit": "timeLimit is longer than the QOS allows",
    "QOSMaxJobsPerUserLimit": "the QOS lets no more jobs of this user run",
    "QOSMaxCpuPerUserLimit": "the QOS gives this user no more CPUs",
    "QOSMaxGRESPerUser": "the QOS gives this user no more GPUs",
    "AssocMaxJobsLimit": "the account lets no more jobs run",
    "MaxMemPerLimit": "it asks for more memory than the limit",
    "None": "Slurm has not looked at it yet",
}


# With these reasons, a job does not wait for those before it.
_OF_ITS_OWN = {"JobHeldUser", "JobHeldAdmin", "BeginTime", "Dependency", "PartitionDown", "PartitionInactive"}


class Row(NamedTuple):
    """Job of Slurm as squeue shows it. ``left``: time until its time limit; None: unknown, or no limit."""

    job_id: str
    name: str
    state: str
    reason: str
    left: timedelta | None
    partition: str
    priority: int
    nodes: str
    comment: str

    @property
    def alive(self) -> bool:
        """True if the job waits or runs, or its processes are being ended."""
        return self.state in _ALIVE

    @property
    def pending(self) -> bool:
        return self.state == PENDING

    @property
    def turn(self) -> tuple[int, int]:
        """Place in the order in which Slurm looks at waiting jobs."""
        number = re.match(r"\d+", self.job_id)
        return -self.priority, int(number[0]) if number is not None else 0


class End(NamedTuple):
    """End of an allocation: a sentence about it, and its cause.

    ``failed``: its script has ended with an error.
    """

    reason: str
    cause: Cause
    failed: bool = False


class Table(NamedTuple):
    """Jobs that squeue has shown at one moment. ``at``: the moment, by the loop's clock."""

    at: float
    rows: Sequence[Row]

    def find(self, name: str, comment: str, job_id: str | None) -> Row | None:
        """Return the job with this name and comment. Of several, the one with this id comes first, then one
        that lives.
        """
        found = sorted(
            self._named(name, comment), key=lambda row: (row.job_id != job_id, not row.alive, row.pending)
        )
        return found[0] if found else None

    def living(self, name: str, comment: str) -> list[str]:
        """Return the ids of all jobs with this name and comment that have not ended.

        There are several if the controller has forgotten one that it had accepted, and another was submitted.
        """
        return [row.job_id for row in self._named(name, comment) if row.alive]

    def _named(self, name: str, comment: str) -> list[Row]:
        return [row for row in self.rows if (row.name, row.comment) == (name, comment)]

    def before(self, row: Row) -> int:
        """Return the number of jobs that wait in the same partition, and that Slurm looks at earlier.

        Those have a higher priority, or the same one and a smaller id. An array counts as one job.
        """
        return sum(
            each.pending and each.partition == row.partition and each.turn < row.turn for each in self.rows
        )


def parse(output: str, at: float) -> Table:
    """Return the jobs in the outputs of ``squeue --format FORMAT``, each once.

    Lines of another form are left out.
    """
    rows = filter(None, map(_row, output.splitlines()))
    return Table(at, list({row.job_id: row for row in rows}.values()))


def _row(line: str) -> Row | None:
    fields = line.split("|", 8)
    if len(fields) != 9:
        return None
    job_id, name, state, reason, left, partition, priority, nodes, comment = fields
    number = int(priority) if priority.isdigit() else 0
    return Row(job_id, name, state, reason, parse_left(left), partition, number, nodes, comment)


def parse_left(text: str) -> timedelta | None:
    """Return the time in Slurm's notation ``days-hours:minutes:seconds``; None if it is not a time."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def why_pending(table: Table, row: Row) -> str:
    """Return why a job waits in Slurm's queue, as the end of a sentence."""
    said = row.reason.removeprefix("(").removesuffix(")") if row.reason.startswith("(") else row.reason
    # Details of a code may follow it after a comma. Other reasons are whole sentences.
    reason = _REASONS.get(said) or _REASONS.get(said.partition(",")[0]) or f"Slurm says {said}"
    before = 0 if said.partition(",")[0] in _OF_ITS_OWN else table.before(row)
    jobs = "" if not before else f"; {before} {'job is' if before == 1 else 'jobs are'} before it"
    return f"waits in partition {row.partition}: {reason}{jobs}"


def doubt_of(row: Row) -> str | None:
    """Return why the processes of a job that has not ended may not run; None if Slurm gives no reason."""
    if row.state == NODE_FAIL:
        return f"its node has failed, says Slurm; it is not known whether allocation {row.job_id} runs on"
    if row.state in ("SUSPENDED", "STOPPED"):
        return f"Slurm has suspended allocation {row.job_id}; its trials continue when it is resumed"
    return None


def end_of(state: str, job_id: str, *, vacated: bool = False) -> End | None:
    """Return how a job with this state has ended. Return None if some of it may still run.

    After the failure of its node, some of it may still run there, unless its keeper has said that nothing
    does (``vacated``).
    """
    state = state.split()[0] if state else ""
    if state in _ALIVE or (state == NODE_FAIL and not vacated) or state not in _ENDS:
        return None
    sentence, cause = _ENDS[state]
    return End(f"allocation {job_id} {sentence}", cause, state == FAILED)
