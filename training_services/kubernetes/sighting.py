"""State of one trial job, derived from its Job, its pods and the cluster's events.

The functions do no I/O, and accept objects with any content. A pod is over when none of its processes run any
longer: its container has ended, the node has refused it, or the pod is gone. A pod that is being deleted
still runs during its grace period, so its state is doubtful. A silent node makes the state doubtful, too.

Only the first pod of a Job counts. Kubernetes replaces a deleted pod of a Job, sometimes before it has ended,
but the trial was not placed on the replacement.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from training_services.kubernetes.syntax import CONTAINER

__all__ = [
    "Cause",
    "Doubt",
    "JobSight",
    "Note",
    "Over",
    "Phase",
    "PodSight",
    "Sighting",
    "Sign",
    "fold",
    "pod_gone",
    "read_job",
    "read_note",
    "read_pod",
]

LONGEST = 500  # characters of a message that are shown

UNPULLED = {"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"}
BACKED_OFF = {"ImagePullBackOff"}  # its message is less informative than that of the failure before
UNSTARTED = {"StartError", "ContainerCannotRun"}
# reasons in a pod's status which say that the pod had to leave a working node -> text for users
PREEMPTED = {
    "Preempting": "made room for a more important pod on",
    "Preempted": "made room for a more important pod on",
    "Terminated": "was ended by the shutdown of",
    "Shutdown": "was ended by the shutdown of",
    "NodeShutdown": "was ended by the shutdown of",
}
# reasons in a pod's status which say that kubelet or the control plane has ended the pod -> text for users
EVICTED = PREEMPTED | {
    "Evicted": "was evicted from",
    "NodeAffinity": "was refused by",
    "NodePorts": "was refused by",
    "UnexpectedAdmissionError": "was refused by",
}
# reasons for a pod's end in its condition DisruptionTarget (Kubernetes 1.26 and later) -> text for users
DISRUPTED = {
    "PreemptionByScheduler": "made room for a more important pod on",
    "DeletionByTaintManager": "had to leave",
    "EvictionByEvictionAPI": "was evicted from",
    "TerminationByKubelet": "was ended by",
}
MADE_NO_POD = {"FailedCreate"}  # events of a Job that could not create a pod
# Beginning of an event's message. It is removed, because its pod name differs each time the Job tries again.
ATTEMPT = re.compile(r'^Error creating: (pods "[^"]*" is forbidden: )?')
_PHASES_OF_END = ("Succeeded", "Failed")
HELD_UP = {"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"}  # events of a pod


class Cause(enum.Enum):
    """Cause for which a pod has ended."""

    COMPLETED = "completed"
    FAILED = "failed"  # its container ended by itself with an exit code other than 0
    OUT_OF_MEMORY = "out of memory"
    PREEMPTED = "preempted"  # the cluster ended a sound pod, because it needed the resources or the node
    EVICTED = "evicted"  # the node refused it, or ended it for exceeding a limit of its own
    DELETED = "deleted"
    DEADLINE = "deadline"
    NODE_LOST = "node lost"
    NEVER_RAN = "never ran"  # its command, or an init container, could not be executed


class Phase(enum.Enum):
    """Progress of a trial job in the cluster."""

    ABSENT = "absent"  # it has no pod yet
    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Over:
    """End of a pod, of which no process of the trial runs any longer.

    ``reason`` is a sentence that says why it ended. ``container``: the one whose output may say more.
    """

    cause: Cause
    reason: str
    exit_code: int | None = None
    container: str = CONTAINER


class Sign(enum.Enum):
    """Sign that a pod may no longer run, or will end soon."""

    SILENT_NODE = "silent node"
    DELETION = "deletion"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Doubt whether a pod still runs. ``sentence`` says why; the pod has not certainly ended."""

    sign: Sign
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """State of one trial job in the cluster.

    ``uid``: uid of its Job; None: the Job was not seen, or is gone. ``address``: IP address of its pod; "" if
    it has none yet. ``waiting``: a sentence that says why it does not run yet. ``doubt``: why it may no
    longer run. ``ending``: the Job ran too long, but its pod still runs. ``over``: how it has ended.
    ``accompanied``: its pod has other containers, which run on after the trial's and keep the pod.
    """

    uid: str | None
    pod: str | None
    node: str | None
    phase: Phase
    address: str = ""
    waiting: str | None = None
    doubt: Doubt | None = None
    ending: Over | None = None
    over: Over | None = None
    accompanied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSight:
    """Relevant fields of a Kubernetes Job.

    ``over``: how the Job has ended; it counts only if the pods do not report an end themselves.
    """

    name: str
    uid: str
    suspended: bool = False
    over: Over | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSight:
    """Relevant fields of a pod.

    ``job``: name of its Job, or None. ``waiting``: a sentence that says why it does not run yet; ``vague``:
    an event of the cluster may explain this better. ``accompanied``: it has other containers besides the
    trial's, and they have not all ended.
    """

    name: str
    uid: str
    job: str | None
    node: str | None
    phase: Phase
    address: str = ""
    waiting: str | None = None
    vague: bool = False
    doubt: Doubt | None = None
    over: Over | None = None
    accompanied: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Warning about a Job or pod (``kind``) that cannot continue, as one sentence."""

    kind: str
    name: str
    sentence: str


def read_job(job: Mapping[str, Any]) -> JobSight:
    """Return the relevant fields of a Job. Fields that are missing or have a wrong type are ignored."""
    meta, status = _mapping(job.get("metadata")), _mapping(job.get("status"))
    name = _text(meta.get("name"))
    conditions = _true_conditions(status)
    over = None
    if "Complete" in conditions:
        over = Over(Cause.COMPLETED, f"the Job {name} is complete", 0)
    elif "Failed" in conditions or "FailureTarget" in conditions:
        failed = conditions.get("Failed") or conditions["FailureTarget"]
        if failed.get("reason") == "DeadlineExceeded":
            seconds = _mapping(job.get("spec")).get("activeDeadlineSeconds")
            limit = f" of {seconds} s" if isinstance(seconds, int) else ""
            over = Over(Cause.DEADLINE, f"the Job {name} ran longer than its activeDeadlineSeconds{limit}")
        else:
            over = Over(Cause.FAILED, _said(f"the Job {name} failed", failed))
    suspended = _mapping(job.get("spec")).get("suspend") is True
    return JobSight(name=name, uid=_text(meta.get("uid")), suspended=suspended, over=over)


def read_pod(pod: Mapping[str, Any], before: PodSight | None = None) -> PodSight:
    """Return the relevant fields of a pod. ``before`` is the pod's previous state.

    Once the pod has ended, later changes do not replace its end, because an ended pod may be deleted
    afterwards.
    """
    meta, spec, status = (_mapping(pod.get(key)) for key in ("metadata", "spec", "status"))
    name = _text(meta.get("name"))
    node = _text(spec.get("nodeName")) or None
    over = before.over if before is not None and before.over is not None else _over(name, node, pod)
    phase = Phase.RUNNING if status.get("phase") == "Running" else Phase.PENDING
    sight = PodSight(
        name=name,
        uid=_text(meta.get("uid")),
        job=_job_of(meta),
        node=node,
        phase=phase if over is None else Phase.ENDED,
        address=_text(status.get("podIP")),
        over=over,
        accompanied=len(_items(spec.get("containers"))) > 1 and status.get("phase") not in _PHASES_OF_END,
    )
    if over is not None:
        return sight
    if phase is Phase.PENDING:
        waiting, vague = _waiting(node, status, before)
        sight = replace(sight, waiting=waiting, vague=vague)
    return replace(sight, doubt=_doubt(node, meta, spec, status))


def pod_gone(sight: PodSight) -> PodSight:
    """Return the final state of a pod that no longer exists in the cluster. ``sight``: its last state."""
    if sight.over is not None:
        return replace(sight, accompanied=False)
    if sight.doubt is not None and sight.doubt.sign is Sign.SILENT_NODE:
        over = Over(Cause.NODE_LOST, f"the pod {sight.name} was given up: {sight.doubt.sentence}")
    else:
        over = Over(Cause.DELETED, f"the pod {sight.name} was deleted")
    return replace(
        sight, phase=Phase.ENDED, waiting=None, vague=False, doubt=None, over=over, accompanied=False
    )


def read_note(event: Mapping[str, Any]) -> Note | None:
    """Return the warning in a Kubernetes Event if a Job or pod cannot continue; None for other Events."""
    about = _mapping(event.get("involvedObject"))
    kind, name, reason = _text(about.get("kind")), _text(about.get("name")), _text(event.get("reason"))
    message = _text(event.get("message")) or reason
    if kind == "Job" and reason in MADE_NO_POD:
        message = ATTEMPT.sub("", message)
        return Note(kind, name, f"the cluster cannot create the pod: {message}")
    if kind == "Pod" and reason in HELD_UP:
        return Note(kind, name, f"the pod {name} cannot be set up: {message}")
    return None


def fold(
    job: JobSight | None,
    pods: Sequence[PodSight],
    *,
    job_note: str | None = None,
    pod_note: str | None = None,
) -> Sighting:
    """Return the state of a trial job, combined from its Job and pods.

    ``job``: None if the Job is gone; ``pods``: all pods of the Job, the first one first.
    """
    uid = None if job is None else job.uid
    ended = None if job is None else job.over
    if pods:
        pod = pods[0]
        over = pod.over
        ending = ended if ended is not None and ended.cause is Cause.DEADLINE else None
        if over is not None and over.cause is Cause.DELETED and ending is not None:
            over = replace(ending, exit_code=over.exit_code)
        return Sighting(
            uid=uid,
            pod=pod.name,
            node=pod.node,
            phase=pod.phase,
            address=pod.address,
            waiting=pod_note if pod.vague and pod_note is not None else pod.waiting,
            doubt=pod.doubt,
            ending=ending if over is None else None,
            over=over,
            accompanied=pod.accompanied,
        )
    if job is None:
        ended = Over(Cause.DELETED, "the Job was deleted before it had a pod")
    if ended is not None:
        return Sighting(uid=uid, pod=None, node=None, phase=Phase.ENDED, over=ended)
    waiting = job_note or "the cluster has not created the pod yet"
    if job is not None and job.suspended:
        waiting = "the Job is suspended"
    return Sighting(uid=uid, pod=None, node=None, phase=Phase.ABSENT, waiting=waiting)


def _over(name: str, node: str | None, pod: Mapping[str, Any]) -> Over | None:
    """Return how the pod has ended; None if one of its processes may still run."""
    meta, status = _mapping(pod.get("metadata")), _mapping(pod.get("status"))
    ended = _terminated(status)
    code = _number(ended.get("exitCode"))
    if status.get("phase") not in _PHASES_OF_END and not ended:
        return None
    where = "" if node is None else f" on {node}"
    title = f"the pod {name}{where}"
    taken = _taken(name, node, status)
    if taken is not None:
        return replace(taken, exit_code=code)
    if not ended:
        init = _failed_init(status)
        if init is not None:
            container, how = init
            return Over(Cause.NEVER_RAN, f"{title} never ran: {how}", container=container)
    reason = _text(ended.get("reason"))
    if reason == "OOMKilled":
        limit = _memory_limit(pod)
        allowed = "its node had" if limit is None else f"its limit of {limit}"
        return Over(Cause.OUT_OF_MEMORY, f"{title} was killed: it needed more memory than {allowed}", code)
    if reason in UNSTARTED:
        return Over(Cause.NEVER_RAN, _said(f"{title} could not execute its command", ended), code)
    if reason == "ContainerStatusUnknown":
        return Over(Cause.NODE_LOST, _said(f"{title} was lost with its node", ended), code)
    message = _text(ended.get("message"))  # what the keeper has written before it exited
    told = f": {message}" if message else ""
    if code == 0 or status.get("phase") == "Succeeded":
        return Over(Cause.COMPLETED, f"{title} completed{told}", 0)
    if meta.get("deletionTimestamp") is not None:
        return Over(Cause.DELETED, f"{title} was deleted while it ran", code)
    if code is None:
        return Over(Cause.FAILED, _said(f"{title} failed", status))
    return Over(Cause.FAILED, f"{title} ended with {_exit(code)}{told}", code)


def _taken(name: str, node: str | None, status: Mapping[str, Any]) -> Over | None:
    """Return how the node or the cluster has ended the pod; None if neither has ended it."""
    target = _true_conditions(status).get("DisruptionTarget", {})
    place = node or "its node"
    reason = _text(status.get("reason"))
    if reason == "DeadlineExceeded":
        sentence = f"the pod {name} ran longer than its activeDeadlineSeconds"
        return Over(Cause.DEADLINE, _said(sentence, status))
    if reason == "NodeLost" or target.get("reason") == "DeletionByPodGC":
        said = status if reason == "NodeLost" else target
        return Over(Cause.NODE_LOST, _said(f"the pod {name} was lost with {place}", said))
    if reason in EVICTED or reason.startswith("OutOf"):
        how = EVICTED.get(reason, "was refused by")
        # Since Kubernetes 1.26, kubelet does not set the condition if the pod exceeded a limit of its own.
        cause = Cause.PREEMPTED if target or reason in PREEMPTED else Cause.EVICTED
        return Over(cause, _said(f"the pod {name} {how} {place}", status))
    left = DISRUPTED.get(_text(target.get("reason")))
    return None if left is None else Over(Cause.PREEMPTED, _said(f"the pod {name} {left} {place}", target))


def _waiting(node: str | None, status: Mapping[str, Any], before: PodSight | None) -> tuple[str, bool]:
    """Return why the pod does not run yet, and whether an event of the cluster may give a better reason."""
    for container in (*_items(status.get("initContainerStatuses")), *_items(status.get("containerStatuses"))):
        state = _mapping(_mapping(container.get("state")).get("waiting"))
        reason, message = _text(state.get("reason")), _text(state.get("message"))
        if reason in ("", "ContainerCreating", "PodInitializing"):
            continue
        image = _text(container.get("image")) or "of its container"
        said = f": {message}" if message else ""
        if reason in UNPULLED:
            sentence = f"the image {image} cannot be pulled"
            if reason in BACKED_OFF and before is not None and (before.waiting or "").startswith(sentence):
                return before.waiting or sentence, False
            return f"{sentence}{said}", False
        if reason == "ErrImageNeverPull":
            return (
                f"the image {image} is not on {node or 'the node'}, and imagePullPolicy is Never{said}",
                False,
            )
        if reason == "InvalidImageName":
            return f"{image} is not a valid image name{said}", False
        return f"the container cannot be created ({reason}){said}", False
    if node is not None:
        return f"the pod is being set up on {node}", True
    for condition in _items(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            message = (_text(condition.get("message")) or _text(condition.get("reason"))).rstrip(".")
            return f"no node accepts the pod: {message}" if message else "the pod waits for a node", False
    return "the pod waits for a node", False


def _doubt(
    node: str | None, meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]
) -> Doubt | None:
    """Return why the pod may no longer run, or will end soon; None if there is no sign of that."""
    conditions = {_text(item.get("type")): item for item in _items(status.get("conditions"))}
    ready, containers = conditions.get("Ready", {}), conditions.get("ContainersReady", {})
    # Kubelet sets Ready and ContainersReady. If only Ready is False, the control plane has set it, because
    # the node is silent.
    apart = ready.get("status") == "False" and containers.get("status") == "True"
    silent = "Unknown" in (status.get("phase"), ready.get("status")) or status.get("reason") == "NodeLost"
    if silent or (apart and not spec.get("readinessGates")):
        since = _text(ready.get("lastTransitionTime"))
        sentence = f"node {node or 'of the pod'} is not ready" + (f" since {since}" if since else "")
        return Doubt(Sign.SILENT_NODE, sentence)
    deadline = _text(meta.get("deletionTimestamp"))
    if not deadline:
        return None
    return Doubt(Sign.DELETION, f"the pod is being deleted and will end by {deadline}")


def _job_of(meta: Mapping[str, Any]) -> str | None:
    for owner in _items(meta.get("ownerReferences")):
        if owner.get("kind") == "Job":
            return _text(owner.get("name")) or None
    return _text(_mapping(meta.get("labels")).get("job-name")) or None


def _terminated(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the status of the trial's container after its end; empty if it runs or its state is unknown."""
    for container in _items(status.get("containerStatuses")):
        if container.get("name") == CONTAINER:
            return _mapping(_mapping(container.get("state")).get("terminated"))
    return {}


def _failed_init(status: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the name of the init container that has failed, and how it ended; None if none has failed."""
    for container in _items(status.get("initContainerStatuses")):
        ended = _mapping(_mapping(container.get("state")).get("terminated"))
        code = _number(ended.get("exitCode"))
        if ended and code != 0:
            how = "ended" if code is None else f"ended with {_exit(code)}"
            name, message = _text(container.get("name")), _text(ended.get("message"))
            said = f": {message}" if message else ""
            return name, f"its init container {name} {how}{said}"
    return None


def _memory_limit(pod: Mapping[str, Any]) -> str | None:
    for container in _items(_mapping(pod.get("spec")).get("containers")):
        if container.get("name") == CONTAINER:
            return _text(_mapping(_mapping(container.get("resources")).get("limits")).get("memory")) or None
    return None


def _true_conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        _text(item.get("type")): item
        for item in _items(status.get("conditions"))
        if item.get("status") == "True"
    }


def _exit(code: int) -> str:
    """Return a text for an exit code, such as "exit code 1" or "exit code 137 (signal 9)"."""
    return f"exit code {code} (signal {code - 128})" if 128 < code < 193 else f"exit code {code}"


def _said(sentence: str, said: Mapping[str, Any]) -> str:
    """Append the cluster's message or reason in ``said`` to the sentence, if there is one."""
    message = _text(said.get("message")) or _text(said.get("reason"))
    return f"{sentence}: {message}" if message else sentence


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return " ".join(value.split())[:LONGEST] if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
