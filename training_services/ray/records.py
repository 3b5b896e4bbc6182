"""Reads the records of Ray's jobs, and says in sentences what they show. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from training_services.base import Cause
from trial_keeper.enrol import MARK

__all__ = ["End", "Record", "end_of", "last_words", "misfit", "node_has_died", "read_record"]

PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED = "PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"
_ENTRYPOINT = "JOB_ENTRYPOINT_COMMAND_ERROR"
_LATE = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
_USERS = {  # errors of the configuration, which another job would repeat
    "RUNTIME_ENV_SETUP_FAILURE",
    "JOB_SUPERVISOR_ACTOR_START_FAILURE",
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE",
}
_NODE_DIED = re.compile(r"\bnode\b.{0,120}\b(?:died|dead|failed)\b", re.IGNORECASE)
LONGEST = 300  # characters of Ray's message in a sentence


class Record(NamedTuple):
    """Job of Ray. ``message``: Ray's own text. ``error``: kind of the error, "" if there is none."""

    job_id: str
    status: str
    message: str
    error: str
    exit_code: int | None
    node: str | None

    @property
    def pending(self) -> bool:
        return self.status == PENDING

    @property
    def alive(self) -> bool:
        return self.status in (PENDING, RUNNING)


class End(NamedTuple):
    """End of an allocation: a sentence about it, and its cause.

    ``failed``: its program, or its preparation, has ended with an error.
    """

    reason: str
    cause: Cause
    failed: bool = False


def read_record(found: Mapping[str, Any]) -> Record:
    """Return the record in an answer of ``GET /api/jobs/{id}``."""
    code = found.get("driver_exit_code")
    return Record(
        str(found.get("submission_id") or found.get("job_id")),
        str(found.get("status")),
        str(found.get("message") or ""),
        str(found.get("error_type") or ""),
        code if isinstance(code, int) else None,
        found.get("driver_node_id"),
    )


def node_has_died(record: Record) -> bool:
    """Return True if the job has ended because Ray takes its node for dead, where processes may live."""
    return record.status == FAILED and record.error != _ENTRYPOINT and bool(_NODE_DIED.search(record.message))


def end_of(record: Record) -> End | None:
    """Return how a job has ended; None if it has not."""
    name = f"allocation {record.job_id}"
    if record.alive:
        return None
    if record.status == STOPPED:
        return End(f"{name} was stopped (ray job stop)", Cause.PREEMPTED)
    if record.status == SUCCEEDED:
        return End(f"{name} has ended", Cause.INFRASTRUCTURE)
    if record.error == _ENTRYPOINT or record.exit_code is not None:
        said = last_words(record.message)
        why = f": {said}" if said else ""
        return End(f"{name} has ended with exit code {record.exit_code}{why}", Cause.INFRASTRUCTURE, True)
    if record.error == _LATE:
        sentence = "could not start in the time that Ray gives it (RAY_JOB_START_TIMEOUT_SECONDS)"
        return End(f"{name} {sentence}", Cause.INFRASTRUCTURE)
    failed = record.error in _USERS
    return End(f"{name} has failed: {_short(record.message)}", Cause.INFRASTRUCTURE, failed)


def last_words(output: str) -> str:
    """Return the last sentence of nnimgr's own programs in a job's output; "" if there is none."""
    lines = [line for line in output.splitlines() if line.startswith(MARK)]
    return lines[-1].removeprefix(MARK).strip() if lines else ""


def misfit(needs: Mapping[str, float], nodes: Iterable[Mapping[str, float]]) -> str | None:
    """Return which resource no node has; None if a node has all of them.

    ``needs``: resources of an allocation by Ray's names; ``nodes``: those of each node, free or not.
    """
    all_nodes = list(nodes)
    if not all_nodes or any(_fits(needs, node) for node in all_nodes):
        return None
    for name, number in needs.items():
        most = max(node.get(name, 0.0) for node in all_nodes)
        if most < number:
            return f"no node has {_amount(name, number)}; the most that one has is {_amount(name, most)}"
    return "no single node has all that it needs"


def _fits(needs: Mapping[str, float], node: Mapping[str, float]) -> bool:
    return all(node.get(name, 0.0) >= number for name, number in needs.items())


def _amount(name: str, number: float) -> str:
    return f"{number / (1 << 20):.0f} MiB of memory" if name == "memory" else f"{number:g} {name}"


def _short(message: str) -> str:
    """Return the telling line of a message, which may have a traceback."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = lines[0] if lines else "Ray gives no reason"
    return first.removesuffix(". Full traceback:")[:LONGEST]
