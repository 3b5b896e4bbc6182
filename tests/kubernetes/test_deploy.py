"""The manager in a cluster: its image, its manifests and what its account may do, in the real cluster."""

from __future__ import annotations

import ipaddress
import itertools
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from tests.kubernetes import images
from tests.kubernetes.manager_image import build_root
from tests.machines.detour import detour
from training_services.kubernetes import rights

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
LONG_S = 120.0
_USER = 10001

# What the account may do in its namespace, and nothing anywhere else.
MAY = {name: set(verbs) for name, verbs in rights.MAY.items()}


# The server's own client, with what the pod was given: which lists of which namespaces it gets.
_ASKING = """
import json, sys
from kubernetes import client, config
config.load_incluster_config()
api, found = client.ApiClient(), {}
for space in sys.argv[1:]:
    for path in (f"/apis/batch/v1/namespaces/{space}/jobs", f"/api/v1/namespaces/{space}/secrets"):
        request = api.param_serialize("GET", path, auth_settings=["BearerToken"])
        found[f"{space} {path.rpartition('/')[2]}"] = api.call_api(*request).status
print(json.dumps(found))
"""
PYTHON = "/opt/nnimgr/bin/python"  # of the server's image


def kubectl(*arguments: str, given: str | None = None) -> str:
    """What kubectl prints. It must succeed."""
    done = subprocess.run(
        ["kubectl", *arguments], input=given, stdout=subprocess.PIPE, text=True, timeout=2 * LONG_S
    )
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}"
    return done.stdout


@dataclass(frozen=True, slots=True)
class Deployed:
    """The manager in a namespace of its own; ``data`` is the folder behind its volume."""

    namespace: str
    data: Path

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        return kubectl("--namespace", self.namespace, *arguments, given=given)

    def pod(self) -> dict[str, Any]:
        """The server's pod, once it is ready."""
        self.kubectl("rollout", "status", "deploy/nnimgr", f"--timeout={LONG_S:.0f}s")
        found = json.loads(self.kubectl("get", "pods", "-l", "app.kubernetes.io/name=nnimgr", "-o", "json"))
        (pod,) = (pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"])
        assert isinstance(pod, dict)
        return pod

    def inside(self, *command: str) -> str:
        """What a command in the server's container prints."""
        return self.kubectl("exec", "deploy/nnimgr", "--", *command)

    def client(self, **options: Any) -> httpx.Client:
        """Calls to the server's pod."""
        address = self.pod()["status"]["podIP"]
        return httpx.Client(base_url=f"http://{address}:8080", timeout=LONG_S, **options)

    def run(self, *, id: str, python: str, **service: Any) -> list[str]:
        """Run an experiment of two trials on this training service, by nnictl; how its trials have ended.

        ``python``: Python of the trials.
        """
        config = {
            "trialCommand": f"{python} -c 'import nni; nni.get_next_parameter(); nni.report_final_result(1)'",
            "trialCodeDirectory": "code",
            "trialConcurrency": 1,
            "maxTrialNumber": 2,
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "tuner": {"name": "Random"},
            "trainingService": service,
        }
        write = "mkdir -p /data/code && cat >/data/exp.yml"
        self.kubectl("exec", "-i", "deploy/nnimgr", "--", "sh", "-c", write, given=json.dumps(config))
        self.inside("nnictl", "create", "--config", "/data/exp.yml", "--id", id, "--foreground")
        shown = json.loads(self.inside("nnictl", "trial", "ls", id, "--json"))
        return [trial["status"] for trial in shown["trials"]]

    def token(self) -> str:
        """As deploy/README.md says how to get it."""
        return self.inside("cat", "/data/.nnimgr/token").strip()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the manager's image, which the node has."""
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("KUBECONFIG names no cluster")
    if (why := images.why_not()) is not None:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("image")
    name = f"localhost/nnimgr:{secrets.token_hex(4)}"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        build_root(folder / "root")
        images.bring(folder / "root", name, folder)
    yield name
    images.take_away(name)


@contextmanager
def _api_server() -> Iterator[tuple[str, int]]:
    """Where pods reach the API server, which on a node by itself may listen on loopback only."""
    shown = kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    server = urlsplit(shown)
    host, port = str(server.hostname), server.port or 443
    if not ipaddress.ip_address(host).is_loopback:
        yield host, port
        return
    nodes = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    node = next(
        address["address"] for address in nodes[0]["status"]["addresses"] if address["type"] == "InternalIP"
    )
    with detour(host, port, delay_s=0, at=node) as here:
        yield node, here


@pytest.fixture(scope="module")
def deployed(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """The base manifests, applied where there are no storage classes, no cluster DNS and no kube-proxy."""
    namespace = f"nnimgr-test-{secrets.token_hex(4)}"
    data = tmp_path_factory.mktemp("data")
    os.chown(data, _USER, _USER)
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(DEPLOY / "base"))))
    by_kind = {found["kind"]: found for found in objects}
    claim = by_kind["PersistentVolumeClaim"]
    claim["spec"] |= {"storageClassName": "", "volumeName": namespace}
    (server,) = by_kind["Deployment"]["spec"]["template"]["spec"]["containers"]
    server["image"] = image
    own = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    url = {"name": "NNIMGR_KEEPERS_URL", "value": "https://$(POD_IP):8081"}
    environ = [entry for entry in server["env"] if entry["name"] != url["name"]]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": str(data), "type": "Directory"},
        },
    }
    kubectl("create", "namespace", namespace)
    with ExitStack() as stack:
        host, port = stack.enter_context(_api_server())
        variables = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
        server["env"] = [
            *environ,
            own,
            url,
            *({"name": key, "value": value} for key, value in variables.items()),
        ]
        stack.callback(kubectl, "delete", "persistentvolume", namespace, "--wait=false")
        stack.callback(kubectl, "delete", "namespace", namespace, "--wait=false")
        stack.callback(
            kubectl,
            *("--namespace", namespace, "delete", "deployment,pod", "--all"),
            *("--grace-period=1", f"--timeout={LONG_S:.0f}s"),
        )
        kubectl("apply", "-n", namespace, "-f", "-", given=yaml.safe_dump_all([volume, *objects]))
        yield Deployed(namespace, data)


def test_it_gets_ready_and_serves_who_knows_the_token(deployed: Deployed) -> None:
    with deployed.client() as anybody:
        assert anybody.get("/healthz").status_code == anybody.get("/readyz").status_code == 200
        assert anybody.get("/api/v1/server").status_code == 401
    with deployed.client(headers={"Authorization": f"Bearer {deployed.token()}"}) as user:
        assert user.get("/api/v1/server").json()["port"] == 8080
        assert user.get("/api/v1/experiments").status_code == 200
        assert user.get("/", headers={"Host": f"nnimgr.{deployed.namespace}.svc:8080"}).status_code == 200
        assert user.get("/", headers={"Host": "elsewhere"}).status_code == 403


def test_its_account_may_do_what_it_has_to_and_nothing_else(deployed: Deployed) -> None:
    account = f"system:serviceaccount:{deployed.namespace}:nnimgr"

    def allowed(namespace: str) -> dict[str, set[str]]:
        """What the cluster's own rules come to there, without what everybody may ask of oneself."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        told = json.loads(
            kubectl("create", f"--as={account}", "-o", "json", "-f", "-", given=json.dumps(review))
        )
        found: dict[str, set[str]] = {}
        for rule in told["status"]["resourceRules"]:
            for group, name in itertools.product(rule["apiGroups"], rule["resources"]):
                if group != "authorization.k8s.io":
                    found.setdefault(f"{name}.{group}".rstrip("."), set()).update(rule["verbs"])
        return found

    assert allowed(deployed.namespace) == MAY
    assert allowed("default") == {}
    asked = deployed.inside(PYTHON, "-c", _ASKING, deployed.namespace, "default")
    assert json.loads(asked) == {
        f"{deployed.namespace} jobs": 200,
        f"{deployed.namespace} secrets": 403,
        "default jobs": 403,
        "default secrets": 403,
    }


def test_trials_run_beside_it_in_a_container_that_is_read_only(deployed: Deployed) -> None:
    assert deployed.run(platform="local", id="beside", python=PYTHON) == ["SUCCEEDED", "SUCCEEDED"]


def test_what_it_keeps_outlives_its_pod(deployed: Deployed) -> None:
    before, token = deployed.pod()["metadata"], deployed.token()
    certificate = (deployed.data / ".nnimgr" / "door.pem").read_bytes()
    deployed.kubectl("delete", "pod", before["name"], "--grace-period=5")  # waits until it is gone
    assert deployed.pod()["metadata"]["uid"] != before["uid"]
    assert deployed.token() == token
    assert (deployed.data / ".nnimgr" / "door.pem").read_bytes() == certificate
    assert "beside" in deployed.inside("nnictl", "experiment", "list", "--all")
    with deployed.client(headers={"Authorization": f"Bearer {token}"}) as user:
        assert user.get("/api/v1/server").status_code == 200


def test_it_runs_an_experiment_in_its_cluster(deployed: Deployed) -> None:
    found = deployed.run(
        id="inside",
        python="python3",
        platform="kubernetes",
        image="localhost/python:h5",
        imagePullPolicy="IfNotPresent",
    )
    assert found == ["SUCCEEDED"] * 2
    jobs = deployed.kubectl("get", "jobs", "-l", "nnimgr.io/experiment=inside", "-o", "name").split()
    assert len(jobs) == 2
    deployed.inside("nnictl", "stop", "inside")
    deployed.inside("nnictl", "experiment", "delete", "--yes", "inside")
    deployed.kubectl("wait", "--for=delete", "configmap/nnimgr-inside", f"--timeout={LONG_S:.0f}s")
