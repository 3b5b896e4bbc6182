"""The keeper in real containers: brought by a ConfigMap where there is a Python, else by its own image."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nnimgr.server.certificate import keep_certificate
from tests.kubernetes import images
from tests.trial_keeper.harness import FakeServer, wait_for
from trial_keeper import zipapp

BUILD = Path(__file__).parents[2] / "deploy" / "keeper-image" / "build.py"
PYTHON_IMAGE = os.environ.get("NNIMGR_TEST_PYTHON_IMAGE", "localhost/python:h5")
BARE_IMAGE = os.environ.get("NNIMGR_TEST_BARE_IMAGE", "localhost/busybox:h5")
KEEPER_IMAGE = "localhost/nnimgr-keeper:test"
POD_S = 180.0  # a node may take its time
USER = 12345
WRAP = ["wrap", "/nnimgr/manager", "/nnimgr/work"]
REPORT = "report() { printf 'ME%06d%s\\n' $((${#1} + 1)) \"$1\" >> $NNI_SYS_DIR/.nni/metrics; }; "
ZOMBIES = (
    "z=0; for f in /proc/[0-9]*/stat; do read -r line < $f; "
    "case \"$line\" in *') Z '*) z=$((z + 1));; esac; done; report $z"
)


def kubectl(*arguments: str, content: object = None) -> str:
    """What kubectl prints."""
    given = None if content is None else json.dumps(content)
    told = subprocess.run(["kubectl", *arguments], input=given, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    return told.stdout


def _why_not() -> str | None:
    if not os.environ.get("KUBECONFIG") or shutil.which("kubectl") is None:
        return "needs a cluster that KUBECONFIG names, and kubectl"
    return images.why_not()


pytestmark = pytest.mark.skipif(_why_not() is not None, reason=str(_why_not()))


@pytest.fixture(scope="module")
def keeper_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The script that has built the image; the node has that meanwhile."""
    folder = tmp_path_factory.mktemp("image")
    subprocess.run([sys.executable, BUILD, folder / "root"], check=True, capture_output=True)
    images.bring(folder / "root", KEEPER_IMAGE, folder)
    spec = importlib.util.spec_from_file_location("keeper_image_build", BUILD)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    images.take_away(KEEPER_IMAGE)


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    name = f"nnimgr-test-{secrets.token_hex(4)}"
    kubectl("create", "namespace", name)
    content = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keeper"},
        "binaryData": {"trial_keeper.pyz": base64.b64encode(zipapp.content()).decode()},
    }  # fmt: skip
    kubectl("create", "--filename=-", f"--namespace={name}", content=content)
    try:
        yield name
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


class Pod:
    """A pod with a keeper in it, and the server that it calls."""

    def __init__(self, namespace: str, folder: Path) -> None:
        nodes = json.loads(kubectl("get", "nodes", "--output=json"))["items"]
        address = next(each["address"] for each in nodes[0]["status"]["addresses"])
        pem = folder / "door.pem"
        fingerprint = hashlib.sha256(keep_certificate(pem)).hexdigest()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pem)
        self.server = FakeServer("", address=address, tls=tls)
        self.name = f"pod-{secrets.token_hex(4)}"
        self.namespace = namespace
        manager = {
            "urls": [self.server.url], "token": "secret", "db_id": "db-1", "fingerprint": fingerprint,
        }  # fmt: skip
        self.create("Secret", {"name": self.name}, stringData={self.name: json.dumps(manager), "other": "x"})

    def create(self, kind: str, metadata: dict[str, Any], **fields: Any) -> None:
        body = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}
        kubectl("create", "--filename=-", f"--namespace={self.namespace}", content=body)

    def begin(self, image: str, command: list[str], lay_down: list[str] | None = None) -> None:
        """Create it; ``lay_down``: the command of the keeper's image, if that is to bring the keeper."""
        safe = {
            "runAsUser": USER, "runAsNonRoot": True, "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }  # fmt: skip
        container = {"imagePullPolicy": "IfNotPresent", "securityContext": safe}
        keeper = {"name": "keeper", "mountPath": "/nnimgr/keeper"}
        first = [
            {
                **container,
                "name": "keeper",
                "image": KEEPER_IMAGE,
                "command": lay_down,
                "volumeMounts": [keeper],
            }
        ]
        trial = {
            **container,
            "name": "trial",
            "image": image,
            "command": [*command, *WRAP],
            "env": [{"name": "NNIMGR_POD_GRACE_S", "value": "20"}],
            "resources": {"limits": {"memory": "128Mi", "cpu": "1500m"}},
            "volumeMounts": [
                {**keeper, "readOnly": True},
                {"name": "manager", "mountPath": "/nnimgr/manager", "readOnly": True},
                {"name": "work", "mountPath": "/nnimgr/work"},
            ],
        }
        secret = {
            "secretName": self.name, "defaultMode": 0o400,
            "items": [{"key": self.name, "path": "manager.json"}],
        }  # fmt: skip
        brought: dict[str, Any] = {"configMap": {"name": "keeper"}} if lay_down is None else {"emptyDir": {}}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "automountServiceAccountToken": False,
            "securityContext": {"fsGroup": USER},
            "initContainers": [] if lay_down is None else first,
            "containers": [trial],
            "volumes": [
                {"name": "keeper", **brought},
                {"name": "manager", "secret": secret},
                {"name": "work", "emptyDir": {}},
            ],
        }
        self.create("Pod", {"name": self.name}, spec=spec)
        wait_for(lambda: self.server.calls, f"{self.name}'s keeper: {self.look()}", POD_S)

    def attempt(self, job: str, command: str) -> None:
        start = {
            "trial_id": job, "attempt": 1, "boot_id": self.server.calls[0]["boot_id"],
            "directory": f"trials/{job}", "command": command, "cwd": "/", "environment": {},
            "parameter": "{}", "log_cap": 1 << 20,
        }  # fmt: skip
        self.server.command("start", job, start)

    def look(self) -> str:
        return kubectl("get", "pod", self.name, f"--namespace={self.namespace}", "--output=wide")

    def log(self) -> str:
        """What it has printed, once its kubelet has told that it runs."""
        wait_for(lambda: "Running" in self.look(), f"a kubelet that knows {self.name}", POD_S)
        return kubectl("logs", self.name, f"--namespace={self.namespace}")

    def dismissed(self) -> int:
        """The server wants it to leave; the exit code of its container."""
        with self.server.condition:
            self.server.leave = True
            self.server.condition.notify_all()
        state = wait_for(self._over, f"the end of {self.name}", POD_S)
        code = state["exitCode"]
        assert isinstance(code, int)
        return code

    def _over(self) -> dict[str, Any] | None:
        pod = json.loads(kubectl("get", "pod", self.name, f"--namespace={self.namespace}", "--output=json"))
        [container] = pod["status"]["containerStatuses"]
        found: dict[str, Any] | None = container["state"].get("terminated")
        return found

    def delete(self, *options: str) -> None:
        kubectl("delete", "pod", self.name, f"--namespace={self.namespace}", "--wait=false", *options)

    def close(self) -> None:
        with contextlib.suppress(AssertionError):
            self.delete("--force", "--grace-period=0")
        self.server.close()


@pytest.fixture(params=["ConfigMap", "image"])
def pod(
    request: pytest.FixtureRequest, namespace: str, keeper_image: ModuleType, tmp_path: Path
) -> Iterator[Pod]:
    found = Pod(namespace, tmp_path)
    try:
        if request.param == "image":
            found.begin(BARE_IMAGE, keeper_image.KEEPER, keeper_image.INSTALL)
        else:
            found.begin(PYTHON_IMAGE, ["python3", "/nnimgr/keeper/trial_keeper.pyz"])
        yield found
    finally:
        found.close()


def test_it_runs_one_attempt_and_ends_as_that_did(pod: Pod) -> None:
    host = pod.server.calls[0]["host"]
    assert host["memory"] == 128
    assert host["cpus"] == min(1.5, len(os.sched_getaffinity(0)))
    pod.attempt("e-a-1", REPORT + 'report "$(id -u) $HOME"; exit 3')
    assert pod.server.ended("e-a-1").frames == [b"%d /nnimgr/work/home\n" % USER]
    log = pod.log()
    assert "keeper" in log and "starts, epoch 1" in log and "secret" not in log
    assert pod.dismissed() == 3


def test_nothing_that_has_ended_stays(pod: Pod) -> None:
    pod.attempt("e-a-1", "kill -9 $PPID; sleep 60 & sleep 60")
    assert pod.server.ended("e-a-1").final is not None
    pod.attempt("e-b-1", REPORT + ZOMBIES)
    assert pod.server.ended("e-b-1").frames == [b"0\n"]


def test_a_trial_for_which_there_is_no_memory_says_so(pod: Pod) -> None:
    pod.attempt("e-a-1", "head -c 1000000000 /dev/zero | tail")
    final = pod.server.ended("e-a-1", POD_S).final
    assert final is not None and final["message"] == "killed for lack of memory: the limit is 128 MiB"
    assert final["cause"] == "out_of_memory"
    assert pod.dismissed() == 128 + signal.SIGKILL


def test_a_deleted_pod_tells_everything_first(pod: Pod) -> None:
    pod.attempt("e-a-1", REPORT + "trap 'report last; exit 0' TERM; report 1; while :; do sleep 0.05; done")
    told = pod.server.told("e-a-1")
    wait_for(lambda: told.frames, "a metric")
    wait_for(lambda: "Running" in pod.look(), "a kubelet that knows it", POD_S)  # or it ends it 10 s later
    pod.delete()
    assert pod.server.ended("e-a-1", POD_S).frames == [b"1\n", b"last\n"]
    assert told.final is not None
    assert (told.final["reason"], told.final["message"]) == ("host_lost", "its host was stopped")
    assert told.final["cause"] == "preempted"
