"""What the records of Ray's jobs show."""

from __future__ import annotations

from typing import Any

import pytest

from training_services.base import Cause
from training_services.ray.records import end_of, last_words, misfit, node_has_died, read_record

FAILED_COMMAND = """Job entrypoint command failed with exit code 97, last available logs:
Running entrypoint for job a
nnimgr: the server at 10.0.0.1:7000 cannot be reached from n1: timed out
nnimgr: Another program has used the ticket of this keeper before.
"""
NODE_DIED = (
    "Job supervisor actor died: The actor died unexpectedly before finishing this task.\n"
    "The actor died because its node has died. Node Id: 6a, Ip: 10.0.0.2, reason of node death: EXPECTED"
)


def record(status: str, **more: Any) -> Any:
    return read_record({"submission_id": "a", "status": status, "message": "", "error_type": None, **more})


@pytest.mark.parametrize("status", ["PENDING", "RUNNING"])
def test_what_lives_has_no_end(status: str) -> None:
    assert end_of(record(status)) is None


@pytest.mark.parametrize(
    ("found", "reason", "cause", "failed"),
    [
        (record("STOPPED"), "allocation a was stopped (ray job stop)", Cause.PREEMPTED, False),
        (record("SUCCEEDED", driver_exit_code=0), "allocation a has ended", Cause.INFRASTRUCTURE, False),
        (
            record(
                "FAILED",
                error_type="JOB_ENTRYPOINT_COMMAND_ERROR",
                driver_exit_code=97,
                message=FAILED_COMMAND,
            ),
            "allocation a has ended with exit code 97: Another program has used the ticket of this keeper "
            "before.",
            Cause.INFRASTRUCTURE,
            True,
        ),
        (
            record("FAILED", error_type="JOB_SUPERVISOR_ACTOR_START_TIMEOUT", message="900 seconds"),
            "allocation a could not start in the time that Ray gives it (RAY_JOB_START_TIMEOUT_SECONDS)",
            Cause.INFRASTRUCTURE,
            False,
        ),
        (
            record(
                "FAILED",
                error_type="JOB_SUPERVISOR_ACTOR_START_FAILURE",
                message="'/x is no path.'. Full traceback:\nTraceback",
            ),
            "allocation a has failed: '/x is no path.'",
            Cause.INFRASTRUCTURE,
            True,
        ),
        (record("FAILED"), "allocation a has failed: Ray gives no reason", Cause.INFRASTRUCTURE, False),
    ],
)
def test_how_a_job_has_ended(found: Any, reason: str, cause: Cause, failed: bool) -> None:
    assert end_of(found) == (reason, cause, failed)


def test_a_dead_node_is_told_from_a_dead_worker() -> None:
    died = record("FAILED", error_type="JOB_SUPERVISOR_ACTOR_DIED", message=NODE_DIED)
    assert node_has_died(died)
    worker = "Job supervisor actor died: The actor is dead because its worker process has died."
    assert not node_has_died(record("FAILED", error_type="JOB_SUPERVISOR_ACTOR_DIED", message=worker))
    said = f"nnimgr: node died\n{NODE_DIED}"  # by a program of the user
    command = record("FAILED", error_type="JOB_ENTRYPOINT_COMMAND_ERROR", message=said, driver_exit_code=1)
    assert not node_has_died(command)


def test_last_words_are_those_of_nnimgr() -> None:
    assert last_words("nnimgr: first\nnnimgr: second\nother\n") == "second"
    assert last_words("other\n") == ""


@pytest.mark.parametrize(
    ("needs", "sentence"),
    [
        ({"CPU": 4.0}, None),
        ({"CPU": 8.0}, "no node has 8 CPU; the most that one has is 4 CPU"),
        ({"GPU": 1.0}, "no node has 1 GPU; the most that one has is 0 GPU"),
        ({"memory": float(9 << 30)}, "no node has 9216 MiB of memory; the most that one has is 1024 MiB of"),
        ({"CPU": 4.0, "x": 1.0}, "no single node has all that it needs"),
    ],
)
def test_what_fits_no_node_is_named(needs: dict[str, float], sentence: str | None) -> None:
    found = misfit(needs, [{"CPU": 4.0, "memory": float(1 << 30)}, {"CPU": 2.0, "x": 1.0}])
    assert found is None if sentence is None else found is not None and found.startswith(sentence)


def test_a_cluster_without_nodes_may_grow() -> None:
    assert misfit({"CPU": 4.0}, []) is None
