"""What users read about a job that waits, may be lost, or is over; statuses as clusters write them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from training_services.kubernetes.sighting import (
    Cause,
    Doubt,
    JobSight,
    Over,
    Phase,
    PodSight,
    Sign,
    fold,
    pod_gone,
    read_job,
    read_note,
    read_pod,
)

DELETED_AT = "2026-01-02T03:04:05Z"
IMAGE = "registry.example/trial:1"
NODE_PRESSURE = "The node was low on resource: memory. Container trial was using 2Gi, request is 0."


def pod(status: dict[str, Any], *, node: str | None = "node-1", **meta: Any) -> dict[str, Any]:
    limits = {"limits": {"memory": "30Mi"}}
    return {
        "metadata": {
            "name": "job-x7k2p",
            "uid": "u1",
            "ownerReferences": [{"kind": "Job", "name": "job"}],
            **meta,
        },
        "spec": {"nodeName": node, "containers": [{"name": "trial", "resources": limits}]},
        "status": status,
    }


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "trial", "image": IMAGE, "state": state}]}


def ended(code: int | None, reason: str = "Error", message: str = "", **status: Any) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return {
        "phase": "Succeeded" if code == 0 else "Failed",
        "containerStatuses": [
            {"name": "sidecar", "state": {"running": {}}},
            {"name": "trial", "state": state},
        ],
        **status,
    }


def unscheduled(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


@pytest.mark.parametrize(
    ("status", "node", "sentence"),
    [
        ({"phase": "Pending"}, None, "the pod waits for a node"),
        (
            unscheduled("0/1 nodes are available: 1 Insufficient cpu."),
            None,
            "no node accepts the pod: 0/1 nodes are available: 1 Insufficient cpu",
        ),
        (waiting("ContainerCreating"), "node-1", "the pod is being set up on node-1"),
        (
            waiting("ErrImagePull", "dial tcp 127.0.0.1:80: connect: connection refused"),
            "node-1",
            f"the image {IMAGE} cannot be pulled: dial tcp 127.0.0.1:80: connect: connection refused",
        ),
        (
            waiting("ErrImageNeverPull", "Container image is not present with pull policy of Never"),
            "node-1",
            f"the image {IMAGE} is not on node-1, and imagePullPolicy is Never: "
            "Container image is not present with pull policy of Never",
        ),
        (
            waiting("InvalidImageName", "repository name must be lowercase"),
            "node-1",
            f"{IMAGE} is not a valid image name: repository name must be lowercase",
        ),
        (
            waiting("CreateContainerConfigError", "couldn't find key k in Secret trials/s"),
            "node-1",
            "the container cannot be created (CreateContainerConfigError): "
            "couldn't find key k in Secret trials/s",
        ),
        (
            waiting("CreateContainerError", 'exec: "python3": executable file not found in $PATH'),
            "node-1",
            "the container cannot be created (CreateContainerError): "
            'exec: "python3": executable file not found in $PATH',
        ),
    ],
)
def test_a_pod_that_waits_says_why(status: dict[str, Any], node: str | None, sentence: str) -> None:
    sight = read_pod(pod(status, node=node))
    assert (sight.phase, sight.waiting, sight.over) == (Phase.PENDING, sentence, None)


def test_backing_off_keeps_the_reason_of_the_failure_before_it() -> None:
    failed = read_pod(pod(waiting("ErrImagePull", "manifest unknown")))
    back_off = pod(waiting("ImagePullBackOff", f'Back-off pulling image "{IMAGE}"'))
    assert read_pod(back_off, failed).waiting == f"the image {IMAGE} cannot be pulled: manifest unknown"
    assert (read_pod(back_off).waiting or "").endswith(f'cannot be pulled: Back-off pulling image "{IMAGE}"')


def test_an_init_container_that_waits_says_why() -> None:
    status = waiting("PodInitializing")
    status["initContainerStatuses"] = waiting("ErrImagePull", "no such host")["containerStatuses"]
    assert read_pod(pod(status)).waiting == f"the image {IMAGE} cannot be pulled: no such host"


def target(reason: str, message: str) -> dict[str, Any]:
    return {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]
    }


@pytest.mark.parametrize(
    ("status", "meta", "cause", "code", "reason"),
    [
        (ended(0, "Completed"), {}, Cause.COMPLETED, 0, "the pod job-x7k2p on node-1 completed"),
        (ended(3), {}, Cause.FAILED, 3, "the pod job-x7k2p on node-1 ended with exit code 3"),
        (
            ended(143, message="its trials were stopped"),
            {},
            Cause.FAILED,
            143,
            "the pod job-x7k2p on node-1 ended with exit code 143 (signal 15): its trials were stopped",
        ),
        (
            ended(0, message="no server could be reached"),
            {},
            Cause.COMPLETED,
            0,
            "the pod job-x7k2p on node-1 completed: no server could be reached",
        ),
        (
            ended(139),
            {},
            Cause.FAILED,
            139,
            "the pod job-x7k2p on node-1 ended with exit code 139 (signal 11)",
        ),
        (
            ended(137, "OOMKilled"),
            {},
            Cause.OUT_OF_MEMORY,
            137,
            "the pod job-x7k2p on node-1 was killed: it needed more memory than its limit of 30Mi",
        ),
        (
            ended(137, reason="Error") | {"reason": "Evicted", "message": NODE_PRESSURE},
            {},
            Cause.EVICTED,
            137,
            f"the pod job-x7k2p was evicted from node-1: {NODE_PRESSURE}",
        ),
        (
            {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"},
            {},
            Cause.EVICTED,
            None,
            "the pod job-x7k2p was refused by node-1: Node didn't have enough resource: cpu",
        ),
        (
            ended(137, **target("TerminationByKubelet", "The node was low on resource: memory."))
            | {"reason": "Evicted", "message": NODE_PRESSURE},
            {},
            Cause.PREEMPTED,
            137,
            f"the pod job-x7k2p was evicted from node-1: {NODE_PRESSURE}",
        ),
        (
            ended(143, **target("PreemptionByScheduler", "default-scheduler: preempting")),
            {"deletionTimestamp": DELETED_AT},
            Cause.PREEMPTED,
            143,
            "the pod job-x7k2p made room for a more important pod on node-1: default-scheduler: preempting",
        ),
        (
            {
                "phase": "Failed",
                "reason": "Preempting",
                "message": "Preempted in order to admit critical pod",
            },
            {},
            Cause.PREEMPTED,
            None,
            "the pod job-x7k2p made room for a more important pod on node-1: "
            "Preempted in order to admit critical pod",
        ),
        (
            {"phase": "Failed", **target("DeletionByPodGC", "PodGC: node no longer exists")},
            {},
            Cause.NODE_LOST,
            None,
            "the pod job-x7k2p was lost with node-1: PodGC: node no longer exists",
        ),
        (
            ended(137, "ContainerStatusUnknown", "The container could not be located"),
            {},
            Cause.NODE_LOST,
            137,
            "the pod job-x7k2p on node-1 was lost with its node: The container could not be located",
        ),
        (
            {
                "phase": "Failed",
                "reason": "DeadlineExceeded",
                "message": "Pod was active on the node too long",
            },
            {},
            Cause.DEADLINE,
            None,
            "the pod job-x7k2p ran longer than its activeDeadlineSeconds: "
            "Pod was active on the node too long",
        ),
        (
            ended(128, "StartError", 'exec: "python3": executable file not found in $PATH: unknown'),
            {},
            Cause.NEVER_RAN,
            128,
            "the pod job-x7k2p on node-1 could not execute its command: "
            'exec: "python3": executable file not found in $PATH: unknown',
        ),
        (
            {
                "phase": "Failed",
                "initContainerStatuses": [
                    {"name": "keeper", "state": {"terminated": {"exitCode": 1, "message": "no space"}}}
                ],
            },
            {},
            Cause.NEVER_RAN,
            None,
            "the pod job-x7k2p on node-1 never ran: "
            "its init container keeper ended with exit code 1: no space",
        ),
        (
            ended(137),
            {"deletionTimestamp": DELETED_AT},
            Cause.DELETED,
            137,
            "the pod job-x7k2p on node-1 was deleted while it ran",
        ),
        ({"phase": "Failed"}, {}, Cause.FAILED, None, "the pod job-x7k2p on node-1 failed"),
    ],
)
def test_a_pod_that_is_over_says_how(
    status: dict[str, Any], meta: dict[str, Any], cause: Cause, code: int | None, reason: str
) -> None:
    sight = read_pod(pod(status, **meta))
    container = "keeper" if "init container" in reason else "trial"
    assert (sight.phase, sight.over) == (Phase.ENDED, Over(cause, reason, code, container))


def test_the_end_of_the_trials_container_is_the_pods_even_while_others_run() -> None:
    assert read_pod(pod(ended(1) | {"phase": "Running"})).over is not None
    status = ended(1) | {"phase": "Running"}
    status["containerStatuses"][1]["name"] = "another"
    assert read_pod(pod(status)).over is None


def test_other_containers_keep_a_pod_until_they_have_ended_too() -> None:
    alone = pod(ended(1) | {"phase": "Running"})
    assert not read_pod(alone).accompanied
    others = {**alone, "spec": {**alone["spec"], "containers": [{"name": "trial"}, {"name": "sidecar"}]}}
    kept = read_pod(others)
    assert kept.over is not None and kept.accompanied and fold(None, [kept]).accompanied
    assert not pod_gone(kept).accompanied
    others["status"] = {**others["status"], "phase": "Failed"}
    assert not read_pod(others, kept).accompanied


def test_the_first_end_stays() -> None:
    failed = read_pod(pod(ended(3)))
    later = read_pod(pod(ended(3), deletionTimestamp=DELETED_AT), failed)
    assert later.over == failed.over
    assert pod_gone(later).over == failed.over


def test_a_pod_that_is_being_deleted_still_runs_and_one_that_is_gone_does_not() -> None:
    sight = read_pod(pod({"phase": "Running"}, deletionTimestamp=DELETED_AT))
    assert (sight.phase, sight.over) == (Phase.RUNNING, None)
    assert sight.doubt == Doubt(Sign.DELETION, f"the pod is being deleted and will end by {DELETED_AT}")
    assert pod_gone(sight).over == Over(Cause.DELETED, "the pod job-x7k2p was deleted")


def ready(own: str, containers: str) -> dict[str, Any]:
    return {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": own, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "ContainersReady", "status": containers},
        ],
    }


@pytest.mark.parametrize(
    "status", [ready("False", "True"), ready("Unknown", "Unknown"), {"phase": "Unknown"}]
)
def test_a_silent_node_is_a_doubt_and_a_pod_given_up_there_is_lost_with_it(status: dict[str, Any]) -> None:
    sight = read_pod(pod(status, deletionTimestamp=DELETED_AT))
    assert sight.over is None
    assert sight.doubt is not None and sight.doubt.sentence.startswith("node node-1 is not ready")
    over = pod_gone(sight).over
    assert over is not None
    assert over.cause is Cause.NODE_LOST
    assert over.reason.startswith("the pod job-x7k2p was given up: node node-1 is not ready")


def test_a_container_that_is_not_ready_is_no_doubt() -> None:
    assert read_pod(pod(ready("False", "False"))).doubt is None
    gated = pod(ready("False", "True"))
    gated["spec"]["readinessGates"] = [{"conditionType": "x"}]
    assert read_pod(gated).doubt is None


QUOTA = (
    'Error creating: pods "job-8x2lq" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, '
    "limited: pods=4"
)


def event(kind: str, name: str, reason: str, message: str) -> dict[str, Any]:
    return {"involvedObject": {"kind": kind, "name": name}, "reason": reason, "message": message}


def test_warnings_say_why_there_is_no_pod_or_why_it_is_not_set_up() -> None:
    job = JobSight(name="job", uid="j")
    note = read_note(event("Job", "job", "FailedCreate", QUOTA))
    assert note is not None
    sighting = fold(job, (), job_note=note.sentence)
    assert sighting.phase is Phase.ABSENT
    assert sighting.waiting == (
        "the cluster cannot create the pod: exceeded quota: q, requested: pods=1, used: pods=4, limited: "
        "pods=4"
    )
    mount = read_note(event("Pod", "job-x7k2p", "FailedMount", 'configmap "nosuch" not found'))
    assert mount is not None
    set_up = read_pod(pod(waiting("ContainerCreating")))
    assert fold(job, (set_up,), job_note=note.sentence, pod_note=mount.sentence).waiting == (
        'the pod job-x7k2p cannot be set up: configmap "nosuch" not found'
    )
    running = read_pod(pod({"phase": "Running"}))
    assert fold(job, (running,), job_note=note.sentence, pod_note=mount.sentence).waiting is None
    assert read_note(event("Pod", "job-x7k2p", "BackOff", "Back-off restarting failed container")) is None


def failed_job(reason: str, message: str = "") -> dict[str, Any]:
    condition = {"type": "Failed", "status": "True", "reason": reason, "message": message}
    return {
        "metadata": {"name": "job", "uid": "j"},
        "spec": {"activeDeadlineSeconds": 60},
        "status": {"conditions": [condition]},
    }


def test_the_job_says_what_its_pods_cannot() -> None:
    late = read_job(failed_job("DeadlineExceeded"))
    reason = "the Job job ran longer than its activeDeadlineSeconds of 60 s"
    deleted = read_pod(pod(ended(143), deletionTimestamp=DELETED_AT))
    assert fold(late, (deleted,)).over == Over(Cause.DEADLINE, reason, 143)
    assert fold(late, (pod_gone(read_pod(pod({"phase": "Pending"}))),)).over == Over(Cause.DEADLINE, reason)
    assert fold(late, (read_pod(pod({"phase": "Running"})),)).over is None, "its pod still runs"
    assert fold(late, ()).over == Over(Cause.DEADLINE, reason)
    failed = read_job(failed_job("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
    assert fold(failed, (read_pod(pod(ended(3))),)).over == read_pod(pod(ended(3))).over
    assert failed.over == Over(
        Cause.FAILED, "the Job job failed: Job has reached the specified backoff limit"
    )
    complete = {
        "metadata": {"name": "job"},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]},
    }
    assert fold(read_job(complete), ()).over == Over(Cause.COMPLETED, "the Job job is complete", 0)
    suspended = read_job({"metadata": {"name": "job"}, "spec": {"suspend": True}})
    assert fold(suspended, ()).waiting == "the Job is suspended"
    assert (
        fold(read_job({"metadata": {"name": "job"}}), ()).waiting == "the cluster has not created the pod yet"
    )


def test_a_job_that_was_deleted_is_over_with_its_pod() -> None:
    running = read_pod(pod({"phase": "Running"}))
    assert fold(None, (running,)).over is None
    assert fold(None, (pod_gone(running),)).over == Over(Cause.DELETED, "the pod job-x7k2p was deleted")
    assert fold(None, ()).over == Over(Cause.DELETED, "the Job was deleted before it had a pod")


def test_the_first_pod_counts_and_not_what_replaces_it() -> None:
    first = pod_gone(read_pod(pod({"phase": "Running"})))
    second = read_pod(pod({"phase": "Running"}, name="job-2", uid="u2"))
    sighting = fold(JobSight(name="job", uid="j"), (first, second))
    assert (sighting.pod, sighting.phase) == ("job-x7k2p", Phase.ENDED)


ODD: tuple[Any, ...] = (None, 7, "text", [], ["text", None], {}, {"type": 3}, [{"type": [], "status": {}}])


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_objects_that_lack_fields_or_have_odd_ones_are_read_all_the_same(odd: Any) -> None:
    for base, paths in (
        (pod(ended(3, **target("x", "y"))), ("metadata", "spec", "status")),
        (failed_job("x"), ("metadata", "spec", "status")),
        (event("Pod", "p", "FailedMount", "m"), ("involvedObject", "reason", "message")),
    ):
        for field in paths:
            whole = {**base, field: odd}
            inner = [
                {**base, field: {**base[field], key: odd}}
                for key in (base[field] if isinstance(base[field], dict) else ())
            ]
            for changed in itertools.chain([whole], inner):
                assert isinstance(read_pod(changed), PodSight)
                assert isinstance(read_job(changed), JobSight)
                note = read_note(changed)
                assert note is None or note.kind == "Pod"
    for part in ("state", "name", "image"):
        for state in (
            odd,
            {"waiting": odd},
            {"terminated": odd},
            {"terminated": {"reason": odd, "exitCode": odd}},
        ):
            value = state if part == "state" else odd
            statuses = [{"name": "trial", "state": {"waiting": {"reason": odd}}, part: value}]
            for phase in ("Pending", "Failed", odd):
                read_pod(
                    pod({"phase": phase, "containerStatuses": statuses, "initContainerStatuses": statuses})
                )


def test_a_job_that_ran_too_long_is_known_by_it_while_its_pod_still_ends() -> None:
    late = JobSight(name="j", uid="u", over=Over(Cause.DEADLINE, "the Job j ran longer than it may"))
    pod = PodSight(name="j-1", uid="p", job="j", node="n", phase=Phase.RUNNING)
    assert fold(late, [pod]).ending == late.over
    assert fold(late, [pod]).over is None
    ended = fold(late, [pod_gone(pod)])
    assert ended.ending is None and ended.over == late.over
