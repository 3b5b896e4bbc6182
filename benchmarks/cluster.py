"""Cluster that KUBECONFIG names, for a benchmark: a namespace, a user, and bare Jobs by kubectl.

The user is a ServiceAccount with the permissions that the service needs, and with its own FlowSchema. With
the FlowSchema, the API server counts the user's requests separately. Watches do not belong to a flow;
``watches`` counts those of all clients that use JSON, which no part of the control plane does.
"""

from __future__ import annotations

import json
import os
import queue
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

PREFIX = "nnimgr-benchmark-"
VARIABLE = "KUBECONFIG"
# An image in the cluster with python3.
IMAGE = os.environ.get("NNIMGR_BENCHMARK_IMAGE", "localhost/python:h5")
MANAGER_IP = "NNIMGR_BENCHMARK_MANAGER_IP"  # address at which pods reach this machine, if it is not the node
FLOWS = "flowcontrol.apiserver.k8s.io"
NONE_THERE = "no cluster"
_RULES = (
    (["batch"], ["jobs"], ["create", "get", "list", "watch", "patch", "delete", "deletecollection"]),
    ([""], ["pods"], ["get", "list", "watch"]),
    ([""], ["pods/log"], ["get"]),
    ([""], ["events"], ["list", "watch"]),
    ([""], ["configmaps", "secrets"], ["create", "get", "patch", "delete"]),
)
_SERIES = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_VERBS = ("LIST", "GET", "POST", "PATCH", "DELETE", "WATCH")
_KINDS = ("jobs", "pods", "events", "secrets", "configmaps")


class NoCluster(Exception):
    """Error: there is no cluster, or it does not answer. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Numbers of requests that the API server has counted so far."""

    own: int  # requests of our user, without watches
    json: Mapping[tuple[str, str], int]  # (verb, resource) -> requests of all clients that use JSON

    def since(self, before: Requests) -> Requests:
        changes = {what: count - before.json.get(what, 0) for what, count in self.json.items()}
        return Requests(self.own - before.own, {what: count for what, count in changes.items() if count})

    @property
    def watches(self) -> int:
        """Number of watches that have ended."""
        return sum(count for (verb, _), count in self.json.items() if verb == "WATCH")


class Bench:
    """Namespace of one benchmark. Use it as a context. Raises NoCluster."""

    def __init__(self, directory: Path) -> None:
        self.namespace = PREFIX + secrets.token_hex(4)
        self._directory = directory
        self._user = f"system:serviceaccount:{self.namespace}:nnimgr"

    def __enter__(self) -> Self:
        if not os.environ.get(VARIABLE):
            raise NoCluster(NONE_THERE)
        try:
            kubectl("create", "namespace", self.namespace)
        except (OSError, RuntimeError) as error:
            raise NoCluster(f"{NONE_THERE}: {error}") from error
        try:
            self.address = os.environ.get(MANAGER_IP) or _node_address()
            self.kubeconfig = self._admit()
            self._warm()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        kubectl("delete", "flowschema", self.namespace, "--ignore-not-found")
        kubectl("delete", "namespace", self.namespace, "--wait=false")

    # ---- our user -----------------------------------------------------------------------------------------

    def _admit(self) -> Path:
        """Create the user. Return the file with which the user logs in."""
        group = json.loads(kubectl("get", "--raw", f"/apis/{FLOWS}"))
        subject = {"kind": "ServiceAccount", "name": "nnimgr", "namespace": self.namespace}
        rules = [dict(zip(("apiGroups", "resources", "verbs"), rule, strict=True)) for rule in _RULES]
        apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": self._named("nnimgr")},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": self._named("nnimgr"),
                "rules": rules,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": self._named("nnimgr"),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "nnimgr"},
                "subjects": [subject],
            },
            {
                "apiVersion": group["preferredVersion"]["groupVersion"],
                "kind": "FlowSchema",
                "metadata": {"name": self.namespace},
                "spec": {
                    "matchingPrecedence": 300,
                    "priorityLevelConfiguration": {"name": "workload-high"},
                    "distinguisherMethod": {"type": "ByUser"},
                    "rules": [
                        {
                            "subjects": [
                                {
                                    "kind": "ServiceAccount",
                                    "serviceAccount": {"name": "nnimgr", "namespace": self.namespace},
                                }
                            ],
                            "resourceRules": [
                                {
                                    "verbs": ["*"],
                                    "apiGroups": ["*"],
                                    "resources": ["*"],
                                    "namespaces": ["*"],
                                }
                            ],
                        }
                    ],
                },
            },
        )
        token = kubectl("create", "token", "nnimgr", "-n", self.namespace, "--duration=2h").strip()
        config = json.loads(kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
        config["contexts"][0]["context"]["namespace"] = self.namespace
        path = self._directory / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config), encoding="utf-8")
        return path

    def _warm(self) -> None:
        """Wait until our user's requests are counted.

        The API server needs a moment to apply the FlowSchema.
        """
        for _ in range(100):
            kubectl("get", "jobs", "--kubeconfig", str(self.kubeconfig))
            if self.requests().own:
                return
            time.sleep(0.2)
        raise NoCluster("the API server does not count the requests of our user")

    def requests(self) -> Requests:
        """Return the numbers of requests that the API server has counted up to now."""
        own, spoken = 0, dict[tuple[str, str], int]()
        for line in kubectl("get", "--raw", "/metrics").splitlines():
            if not line.startswith(("apiserver_flowcontrol_dispatched", "apiserver_request_total{")):
                continue
            name, labels, value = _SERIES.fullmatch(line).groups()  # type: ignore[union-attr]
            found = dict(_LABEL.findall(labels))
            if name.startswith("apiserver_flowcontrol"):
                own += int(float(value)) if found["flow_schema"] == self.namespace else 0
            elif "json" in found.get("contentType", "json") and found["resource"] in _KINDS:
                what = (found["verb"], found["resource"])
                if what[0] in _VERBS:
                    spoken[what] = spoken.get(what, 0) + int(float(value))
        return Requests(own, spoken)

    # ---- bare Jobs ----------------------------------------------------------------------------------------

    def bare(self, name: str, program: str, *, jobs: int, parallelism: int) -> float:
        """Run ``jobs`` Jobs with the same Python file, ``parallelism`` at a time. Return the seconds."""
        apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": self._named(name),
                "data": {"trial.py": program},
            }
        )
        ended: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        template = '{.metadata.name}{" "}{.status.conditions[*].type}{"\\n"}'
        watch = subprocess.Popen(
            [
                *_command("get", "jobs", "-n", self.namespace, "-l", f"run={name}"),
                *("--watch", "-o", f"jsonpath={template}"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=_follow, args=(watch, ended), daemon=True).start()
        try:
            begun = time.monotonic()
            made, over = 0, set[str]()
            while len(over) < jobs:
                due = min(jobs - made, parallelism - (made - len(over)))
                if due:
                    bodies = [self._bare(name, number) for number in range(made, made + due)]
                    kubectl("create", "-f", "-", given=_listed(bodies))
                    made += due
                over |= _drained(ended)
            return time.monotonic() - begun
        finally:
            watch.kill()
            watch.wait()

    def _bare(self, run: str, number: int) -> dict[str, Any]:
        container = {
            "name": "trial",
            "image": IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python3", "/code/trial.py"],
            "volumeMounts": [{"name": "code", "mountPath": "/code"}],
        }
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "code", "configMap": {"name": run}}],
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**self._named(f"{run}-{number}"), "labels": {"run": run}},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        }

    def remove_jobs(self) -> None:
        """Delete the Jobs of the previous turn, and wait until their pods are gone."""
        kubectl("delete", "jobs", "--all", "-n", self.namespace, "--cascade=foreground", "--wait=true")

    def pods(self) -> list[Any]:
        """Return all pods, as the cluster describes them."""
        return list(json.loads(kubectl("get", "pods", "-n", self.namespace, "-o", "json"))["items"])

    def _named(self, name: str) -> dict[str, Any]:
        return {"name": name, "namespace": self.namespace}


def kubectl(*arguments: str, given: str | None = None) -> str:
    """Run kubectl and return its output. Raise RuntimeError with its error message."""
    done = subprocess.run(_command(*arguments), input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"kubectl {arguments[0]} {arguments[1]}: {done.stderr.strip()}")
    return done.stdout


def apply(*bodies: Mapping[str, Any]) -> None:
    kubectl("apply", "-f", "-", given=_listed(bodies))


def _command(*arguments: str) -> list[str]:
    return ["kubectl", *arguments]


def _listed(bodies: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})


def _node_address() -> str:
    [node, *_] = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    found: dict[str, str] = {each["type"]: each["address"] for each in node["status"]["addresses"]}
    return found["InternalIP"]


def _follow(watch: subprocess.Popen[str], ended: queue.SimpleQueue[str | None]) -> None:
    """Put the names of ended Jobs into the queue, and None at the end of the watch or when a Job failed."""
    assert watch.stdout is not None
    for line in watch.stdout:
        name, *conditions = line.split()
        if "Failed" in conditions:
            break
        if "Complete" in conditions:
            ended.put(name)
    ended.put(None)


def _drained(ended: queue.SimpleQueue[str | None]) -> set[str]:
    """Wait for at least one name, and return all names in the queue. Raise RuntimeError."""
    found = {ended.get()}
    while not ended.empty():
        found.add(ended.get())
    if None in found:
        raise RuntimeError("a bare Job has failed")
    return {name for name in found if name is not None}
