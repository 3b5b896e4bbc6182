"""A scripted Kubernetes API server: real HTTP on a loopback port, its objects in memory, its faults by order.

It keeps Jobs, Pods, Secrets, ConfigMaps and Events; makes a Pending pod for each Job; and deletes what
belongs to what is deleted. What a pod does, a test says: ``run``, ``finish``, ``set_pod``, ``remove``.

Faults: ``fail`` (any answer), ``cut`` (the connection), ``hold`` (no answer until it is let go), ``compact``
(410), ``freeze`` (watches that stay open and say nothing), ``drop_watches``, ``stop`` and ``start``.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import queue
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.kubernetes.fake_http import RESOURCES, Asked, Object, Refused, Reply, Server, status_of

__all__ = ["NAMESPACE", "FakeApi", "Reply"]

NAMESPACE = "trials"
TICK_S = 0.05  # how often a watch looks whether its time is over


class _Change(NamedTuple):
    version: int
    type: str
    resource: str
    object: Object


class FakeApi:
    """The server. Its methods may be called from any thread.

    ``token``: what requests have to bear, None: nothing. ``makes_pods``: whether Jobs get pods.
    ``tls``: a file with a key and a certificate.
    """

    def __init__(self, *, token: str | None = None, makes_pods: bool = True, tls: Path | None = None) -> None:
        self.requests: list[Asked] = []
        self.token = token
        self.makes_pods = makes_pods
        self._tls = tls
        self.logs: dict[str, bytes] = {}  # of pods, by name
        self.cond = threading.Condition()
        self._objects: dict[str, dict[tuple[str, str], Object]] = {resource: {} for resource in RESOURCES}
        self._changes: list[_Change] = []
        self._version = 1
        self._oldest = 0  # changes up to this one are forgotten
        self._uids = itertools.count(1)
        self._replies: list[tuple[str, str, Reply]] = []
        self._holds: list[tuple[str, str, threading.Event]] = []
        self._watches: list[queue.SimpleQueue[bytes | None]] = []
        self._server: Server | None = None
        self.port = 0
        self.start()

    # The server itself.

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    def kubeconfig(self, folder: Path) -> str:
        """A kubeconfig that leads here, in this folder."""
        path = folder / "kubeconfig"
        user = {} if self.token is None else {"token": self.token}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "fake",
                    "contexts": [
                        {"name": "fake", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}
                    ],
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": user}],
                }
            ),
            encoding="utf-8",
        )
        return str(path)

    def start(self) -> None:
        """Listen, on the same port as before; what it had is still there."""
        self._server = Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_address[1]
        if self._tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections, and end those that are open."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()
            self.drop_watches()
            server.hang_up()

    def __enter__(self) -> FakeApi:
        return self

    def __exit__(self, *_: object) -> None:
        for _verb, _resource, gate in self._holds:
            gate.set()
        self.stop()

    # Faults.

    def fail(self, verb: str, resource: str, reply: Reply, *, times: int = 1) -> None:
        """Answer the next requests of this kind with that."""
        self._replies += [(verb, resource, reply)] * times

    def cut(self, verb: str, resource: str, *, times: int = 1) -> None:
        """Close the connection in place of an answer."""
        self.fail(verb, resource, Reply(0), times=times)

    @contextlib.contextmanager
    def hold(self, verb: str, resource: str) -> Iterator[None]:
        """Answer requests of this kind only when the block is over."""
        gate = (verb, resource, threading.Event())
        self._holds.append(gate)
        try:
            yield
        finally:
            self._holds.remove(gate)
            gate[2].set()

    def compact(self) -> None:
        """Forget all changes up to now: watches from before are 410 Gone."""
        with self.cond:
            self._version += 1
            self._oldest = self._version
            self._changes.clear()

    def freeze(self) -> None:
        """Watches that are open now stay so, and say nothing more; new ones are none of these."""
        with self.cond:
            self._watches.clear()

    def drop_watches(self) -> None:
        """End the connections of all watches."""
        with self.cond:
            watches, self._watches = self._watches, []
        for watch in watches:
            watch.put(None)

    def send(self, event: Object) -> None:
        """Say this to all watches that are open."""
        line = json.dumps(event).encode() + b"\n"
        with self.cond:
            for watch in self._watches:
                watch.put(line)

    def expire_watches(self) -> None:
        """Tell all watches that their version is too old, as the server does after a compaction."""
        told = status_of(410, "Expired", "too old resource version: 1 (2)")
        self.send({"type": "ERROR", "object": told})
        self.drop_watches()

    def wait_for(self, verb: str, resource: str, *, count: int = 1, limit_s: float = 10.0) -> list[Asked]:
        """Until there have been so many requests of this kind. Raises TimeoutError."""
        with self.cond:
            if not self.cond.wait_for(lambda: len(self.asked(verb, resource)) >= count, limit_s):
                raise TimeoutError(
                    f"{len(self.asked(verb, resource))} of {count} requests: {verb} {resource}"
                )
            return self.asked(verb, resource)

    def asked(self, verb: str, resource: str) -> list[Asked]:
        return [each for each in list(self.requests) if (each.verb, each.resource) == (verb, resource)]

    # What is in the cluster.

    def objects(self, resource: str, namespace: str = NAMESPACE) -> list[Object]:
        with self.cond:
            found = self._objects[resource].items()
            return [copy.deepcopy(item) for (where, _), item in found if where == namespace]

    def object(self, resource: str, name: str, namespace: str = NAMESPACE) -> Object:
        """Raises KeyError."""
        with self.cond:
            return copy.deepcopy(self._objects[resource][namespace, name])

    def put(self, resource: str, body: Mapping[str, Any], namespace: str = NAMESPACE) -> Object:
        """Make the object, or replace it; what a server adds is added."""
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
        """The object is gone, and what it owns. Raises KeyError."""
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
        """The newest pod of a Job. Raises LookupError."""
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
        """The Job's pod runs."""
        running = [{"name": "trial", "state": {"running": {}}}]
        return self.set_pod(job, {"phase": "Running", "containerStatuses": running})

    def finish(self, job: str, exit_code: int = 0, reason: str | None = None) -> None:
        """The Job's pod has ended, and so has the Job."""
        ended = {"exitCode": exit_code, "reason": reason or ("Error" if exit_code else "Completed")}
        phase, condition = ("Failed", "Failed") if exit_code else ("Succeeded", "Complete")
        with self.cond:
            states = [{"name": "trial", "state": {"terminated": ended}}]
            self.set_pod(job, {"phase": phase, "containerStatuses": states})
            whole = self.object("jobs", job)
            whole["status"] = {"conditions": [{"type": condition, "status": "True"}]}
            self.put("jobs", whole)

    def warn(self, kind: str, name: str, reason: str, message: str) -> None:
        """An Event of type Warning about this object."""
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
        self._changes.append(_Change(self._version, kind, resource, copy.deepcopy(item)))
        self.cond.notify_all()

    # Requests.

    def reply_to(self, asked: Asked) -> Reply | None:
        """Note the request, wait if it is held, and say what a test wants to have answered."""
        with self.cond:
            self.requests.append(asked)
            self.cond.notify_all()
        for verb, resource, gate in list(self._holds):
            if (verb, resource) == (asked.verb, asked.resource):
                gate.wait(60)
        for reply in list(self._replies):
            if reply[:2] == (asked.verb, asked.resource):
                self._replies.remove(reply)
                return reply[2]
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if self.token is not None and (scheme.lower(), token) != ("bearer", self.token):
            return Reply(401, "Unauthorized", "Unauthorized")
        return None

    def answer(self, asked: Asked) -> Object:
        """Raises Refused."""
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

    def follow(self, asked: Asked) -> Iterator[bytes]:
        """The lines of a watch, until its time is over; ConnectionAbortedError: somebody has ended it.

        Raises Refused (410).
        """
        version = int(asked.query["resourceVersion"])
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with self.cond:
            if version < self._oldest:
                raise Refused(410, "Expired", f"too old resource version: {version} ({self._oldest})")
            self._watches.append(lines)
        return self._lines(asked, version, lines)

    def _lines(self, asked: Asked, version: int, lines: queue.SimpleQueue[bytes | None]) -> Iterator[bytes]:
        end = time.monotonic() + float(asked.query.get("timeoutSeconds", 3600))
        while True:
            news = []
            with self.cond:
                if lines in self._watches:
                    news = self._news(version, asked)
                    if not news and lines.empty():
                        self.cond.wait(TICK_S)
                        news = self._news(version, asked)
                    if not news and lines.empty() and time.monotonic() > end:
                        self._watches.remove(lines)
                        return
                elif self._server is None:
                    raise ConnectionAbortedError
                elif lines.empty():
                    self.cond.wait(TICK_S)  # frozen
            for change in news:
                version = change.version
                yield json.dumps({"type": change.type, "object": change.object}).encode() + b"\n"
            while not lines.empty():
                line = lines.get()
                if line is None:
                    raise ConnectionAbortedError
                yield line

    def _news(self, version: int, asked: Asked) -> list[_Change]:
        found: list[_Change] = []
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
    """A JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
