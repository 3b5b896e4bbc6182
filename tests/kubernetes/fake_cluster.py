"""A Kubernetes cluster in memory: Jobs, Pods, Secrets, ConfigMaps and Events, and how they change."""

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.kubernetes.fake_http import RESOURCES, Asked, Object, Refused

__all__ = ["NAMESPACE", "Change", "FakeCluster"]

NAMESPACE = "trials"


class Change(NamedTuple):
    version: int
    type: str
    resource: str
    object: Object


class FakeCluster:
    """Objects of a cluster, with a history of their changes. Methods may be called from any thread.

    ``makes_pods``: each new Job gets a pending pod. A test decides what a pod does: ``run``, ``finish``,
    ``set_pod``, ``remove``.
    """

    def __init__(self, *, makes_pods: bool) -> None:
        self.makes_pods = makes_pods
        self.logs: dict[str, bytes] = {}  # logs of pods, by name
        self.cond = threading.Condition()
        self._objects: dict[str, dict[tuple[str, str], Object]] = {resource: {} for resource in RESOURCES}
        self._changes: list[Change] = []
        self._version = 1
        self._oldest = 0  # number of the last forgotten change
        self._uids = itertools.count(1)
        self._addresses = itertools.count(1)

    def compact(self) -> None:
        """Forget all changes. Watches that begin at an earlier version get 410 Gone."""
        with self.cond:
            self._version += 1
            self._oldest = self._version
            self._changes.clear()

    def objects(self, resource: str, namespace: str = NAMESPACE) -> list[Object]:
        with self.cond:
            found = self._objects[resource].items()
            return [copy.deepcopy(item) for (where, _), item in found if where == namespace]

    def object(self, resource: str, name: str, namespace: str = NAMESPACE) -> Object:
        """Return the object. Raises KeyError."""
        with self.cond:
            return copy.deepcopy(self._objects[resource][namespace, name])

    def put(self, resource: str, body: Mapping[str, Any], namespace: str = NAMESPACE) -> Object:
        """Create or replace the object, and add the fields that a server adds."""
        with self.cond:
            made = copy.deepcopy(dict(body))
            meta = made.setdefault("metadata", {})
            before = self._objects[resource].get((namespace, meta["name"]))
            self._version += 1
            meta["namespace"] = namespace
            old = {} if before is None else before["metadata"]
            meta.setdefault("uid", old.get("uid") or f"uid-{next(self._uids)}")
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            meta.setdefault("creationTimestamp", old.get("creationTimestamp", now))
            meta["resourceVersion"] = str(self._version)
            self._objects[resource][namespace, meta["name"]] = made
            self._tell("ADDED" if before is None else "MODIFIED", resource, made)
            if resource == "jobs" and before is None and self.makes_pods:
                self._make_pod(made, namespace)
            return made

    def remove(self, resource: str, name: str, namespace: str = NAMESPACE) -> None:
        """Remove the object and all objects that it owns. Raises KeyError."""
        with self.cond:
            gone = self._objects[resource].pop((namespace, name))
            self._version += 1
            gone["metadata"]["resourceVersion"] = str(self._version)
            self._tell("DELETED", resource, gone)
            for other, items in self._objects.items():
                for where, item in list(items):
                    owners = items[where, item]["metadata"].get("ownerReferences", ())
                    if any(owner["uid"] == gone["metadata"]["uid"] for owner in owners):
                        self.remove(other, item, where)

    def pod_of(self, job: str, namespace: str = NAMESPACE) -> Object:
        """Return the newest pod of a Job. Raises LookupError."""
        found = [
            pod
            for pod in self.objects("pods", namespace)
            if any(owner["name"] == job for owner in pod["metadata"].get("ownerReferences", ()))
        ]
        if not found:
            raise LookupError(f"the Job {job} has no pod")
        return found[-1]

    def set_pod(
        self, job: str, status: Mapping[str, Any], *, node: str | None = "node-1", **meta: Any
    ) -> Object:
        """Give the Job's pod this status and these fields of its metadata."""
        with self.cond:
            pod = self.pod_of(job)
            pod["status"] = dict(status)
            pod["metadata"] |= meta
            if node is not None:
                pod["spec"]["nodeName"] = node
            return self.put("pods", pod)

    def run(self, job: str) -> Object:
        """Let the Job's pod run."""
        running = [{"name": "trial", "state": {"running": {}}}]
        address = f"10.1.0.{next(self._addresses)}"
        return self.set_pod(job, {"phase": "Running", "podIP": address, "containerStatuses": running})

    def finish(self, job: str, exit_code: int = 0, reason: str | None = None) -> None:
        """Let the Job's pod and the Job end."""
        ended = {"exitCode": exit_code, "reason": reason or ("Error" if exit_code else "Completed")}
        phase, condition = ("Failed", "Failed") if exit_code else ("Succeeded", "Complete")
        with self.cond:
            states = [{"name": "trial", "state": {"terminated": ended}}]
            self.set_pod(job, {"phase": phase, "containerStatuses": states})
            whole = self.object("jobs", job)
            whole["status"] = {"conditions": [{"type": condition, "status": "True"}]}
            self.put("jobs", whole)

    def warn(self, kind: str, name: str, reason: str, message: str) -> None:
        """Create an Event of type Warning about this object."""
        with self.cond:
            self.put(
                "events",
                {
                    "metadata": {"name": f"{name}.{self._version}"},
                    "involvedObject": {"kind": kind, "name": name},
                    "reason": reason,
                    "message": message,
                    "type": "Warning",
                },
            )

    def _make_pod(self, job: Object, namespace: str) -> None:
        template = job.get("spec", {}).get("template", {})
        name = job["metadata"]["name"]
        owner = {"kind": "Job", "name": name, "uid": job["metadata"]["uid"], "controller": True}
        labels = {**template.get("metadata", {}).get("labels", {}), "job-name": name}
        self.put(
            "pods",
            {
                "metadata": {"name": f"{name}-{self._version}", "labels": labels, "ownerReferences": [owner]},
                "spec": copy.deepcopy(template.get("spec", {})),
                "status": {"phase": "Pending"},
            },
            namespace,
        )

    def _tell(self, kind: str, resource: str, item: Object) -> None:
        self._changes.append(Change(self._version, kind, resource, copy.deepcopy(item)))
        self.cond.notify_all()

    def answer(self, asked: Asked) -> Object:
        """Carry out a request, and return the body of the answer. Raises Refused."""
        with self.cond:
            return getattr(self, f"_{asked.verb}")(asked)  # type: ignore[no-any-return]

    def _get(self, asked: Asked) -> Object:
        return copy.deepcopy(self._find(asked))

    def _list(self, asked: Asked) -> Object:
        found = [item for item in self.objects(asked.resource, asked.namespace) if _chosen(item, asked.query)]
        if (first := asked.query.get("continue")) is not None:
            version, _, start = first.partition(":")
            if int(version) < self._oldest:
                raise Refused(410, "Expired", "The provided continue parameter is too old")
        else:
            version, start = str(self._version), "0"
        end = int(start) + int(asked.query.get("limit", len(found) or 1))
        meta = {"resourceVersion": version} | ({"continue": f"{version}:{end}"} if end < len(found) else {})
        return {"kind": "List", "metadata": meta, "items": found[int(start) : end]}

    def _create(self, asked: Asked) -> Object:
        name = asked.body["metadata"]["name"]
        if (asked.namespace, name) in self._objects[asked.resource]:
            raise Refused(409, "AlreadyExists", f'{asked.resource} "{name}" already exists')
        if "dryRun" in asked.query:
            return dict(asked.body)
        return copy.deepcopy(self.put(asked.resource, asked.body, asked.namespace))

    def _patch(self, asked: Asked) -> Object:
        return copy.deepcopy(
            self.put(asked.resource, _merged(self._find(asked), asked.body), asked.namespace)
        )

    def _delete(self, asked: Asked) -> Object:
        if asked.name is None:
            for item in self.objects(asked.resource, asked.namespace):
                if _chosen(item, asked.query):
                    self.remove(asked.resource, item["metadata"]["name"], asked.namespace)
            return {"kind": "Status", "status": "Success"}
        wanted = (asked.body or {}).get("preconditions", {}).get("uid")
        found = self._find(asked)
        if wanted not in (None, found["metadata"]["uid"]):
            raise Refused(409, "Conflict", "the UID in the precondition does not match the UID in record")
        self.remove(asked.resource, asked.name, asked.namespace)
        return {"kind": "Status", "status": "Success"}

    def _find(self, asked: Asked) -> Object:
        try:
            return self._objects[asked.resource][asked.namespace, asked.name or ""]
        except KeyError:
            raise Refused(404, "NotFound", f'{asked.resource} "{asked.name}" not found') from None

    def _seen_from(self, version: int) -> None:
        """Raise Refused if changes after this version are forgotten."""
        if version < self._oldest:
            raise Refused(410, "Expired", f"too old resource version: {version} ({self._oldest})")

    def _news(self, version: int, asked: Asked) -> list[Change]:
        found: list[Change] = []
        for change in reversed(self._changes):
            if change.version <= version:
                break
            where = change.resource, change.object["metadata"]["namespace"]
            if where == (asked.resource, asked.namespace) and _chosen(change.object, asked.query):
                found.append(change)
        return found[::-1]


def _chosen(item: Object, query: Mapping[str, str]) -> bool:
    labels = item["metadata"].get("labels", {})
    wanted = [term.split("=") for term in query.get("labelSelector", "").split(",") if term]
    fields = [term.split("=") for term in query.get("fieldSelector", "").split(",") if term]
    return all(labels.get(key) == value for key, value in wanted) and all(
        item.get(key) == value for key, value in fields
    )


def _merged(before: Any, patch: Any) -> Any:
    """Return the value after a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
