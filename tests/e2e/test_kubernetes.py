"""Experiments in pods of a real cluster, behind a real server."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import vandalism
from tests.e2e.cluster import SDK, SHARED, Ground, answers, ground, kubectl, namespace, without
from tests.e2e.scene import Scene, eventually
from tests.server.harness import free_port, nothing_left, serving

LIMIT_S = 180.0  # for pods on a busy machine

# Notes each of its starts, and does what its number says.
TRIAL = f"""
import json, os, pathlib, sys, time
import nni
x = nni.get_next_parameter()["x"]
shared = pathlib.Path({SHARED!r})
number = os.environ["NNI_TRIAL_SEQ_ID"]
with open(shared / f"starts-{{number}}", "a") as starts:
    starts.write(os.environ["NNIMGR_JOB_ID"] + "\\n")

def wait(name):
    while not (shared / name).exists():
        time.sleep(0.02)

def report_both():
    nni.report_intermediate_result(x)
    nni.report_final_result(x)

print("hello", number, flush=True)
"""


class Field(Scene):
    """An experiment on a cluster; its server can be killed and followed by another."""

    def __init__(self, stack: contextlib.ExitStack, directory: Path, place: Ground) -> None:
        self._stack, self._port = stack, free_port()
        self.place = place
        super().__init__(self._serve(directory), directory)

    def _serve(self, directory: Path) -> Any:
        return self._stack.enter_context(serving(directory, port=self._port))

    def restart(self) -> None:
        """kill -9 of the server; another takes its place."""
        self.server.end(signal.SIGKILL)
        self.server = self._serve(self.directory)

    def begin(self, trial: str, *, trials: int, service: dict[str, Any] | None = None, **more: Any) -> None:
        """Create the experiment of this program, whose trials run all at once unless ``more`` says other."""
        code = self.directory / "code"
        shutil.copytree(SDK, code / "nni", ignore=shutil.ignore_patterns("__pycache__"))
        (code / "trial.py").write_text(TRIAL + trial)
        fields = {
            "trialCodeDirectory": str(code),
            "trialConcurrency": trials,
            "maxTrialNumber": trials,
            **self.place.config(**(service or {})),
            **more,
        }
        self.create("python3 trial.py", **fields)

    def release(self, name: str) -> None:
        (self.place.shared / name).touch()

    def starts(self, number: int) -> list[str]:
        """The jobs that trial number so-and-so has run as, by its own word."""
        file = self.place.shared / f"starts-{number}"
        return file.read_text().split() if file.exists() else []

    def exit_codes(self, *, count: int) -> dict[str, int]:
        """Of the pods, by trial, once so many have ended."""
        codes = {}
        for pod in self.place.pods():
            for state in pod["status"].get("containerStatuses", []):
                if (ended := state["state"].get("terminated")) is not None:
                    codes[pod["metadata"]["labels"]["nnimgr.io/trial"]] = ended["exitCode"]
        return codes if len(codes) == count else {}

    def done(self, limit_s: float = LIMIT_S) -> list[dict[str, Any]]:
        try:
            return super().done(limit_s)
        except AssertionError as error:
            seen = self.place.kubectl("describe", "jobs,pods", "-l", "app.kubernetes.io/managed-by=nnimgr")
            raise AssertionError(f"{error}\n{seen}") from None

    def numbered(self) -> dict[int, dict[str, Any]]:
        return {trial["sequence"]: trial for trial in self.trials()}

    def until_running(self, *numbers: int) -> dict[int, dict[str, Any]]:
        def all_running() -> dict[int, dict[str, Any]]:
            found = self.numbered()
            running = all(n in found and found[n]["status"] == "RUNNING" and self.starts(n) for n in numbers)
            return found if running else {}

        return eventually(all_running, f"trials {numbers} to run\n{self.server.said}", LIMIT_S)

    def ended(self, number: int, status: str) -> dict[str, Any]:
        """The trial, once it has ended this way."""

        def look() -> dict[str, Any]:
            trial = self.numbered()[number]
            return trial if trial["status"] == status else {}

        return eventually(look, f"{status} of {number}, not {self.numbered()[number]}", LIMIT_S)

    def waiting(self, part: str, experiment: str = "exp") -> str:
        """The reason for which its first trial waits, once this is part of it."""

        def look() -> str:
            path = f"/api/v1/experiments/{experiment}/trials?limit=1"
            trials = self.server.call("GET", path).body["trials"]
            reason = str(trials[0]["reason"]) if trials else ""
            return reason if part in reason else ""

        return eventually(look, f"{part!r}\n{self.server.said}", LIMIT_S)


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    shared = tmp_path / "shared"
    shared.mkdir()
    with ground(shared) as place, nothing_left(tmp_path), contextlib.ExitStack() as stack:
        found = Field(stack, tmp_path, place)
        try:
            yield found
        finally:
            if found.server.process.poll() is None:
                found.server.call("POST", f"{found.url}/stop")


ASSESSOR = """
from nni.assessor import Assessor, AssessResult
class Harsh(Assessor):
    def assess_trial(self, trial_job_id, trial_history):
        return AssessResult.Bad if trial_history[-1] > 5 else AssessResult.Good
"""


def test_an_experiment_from_first_to_last(field: Field) -> None:
    (field.directory / "harsh.py").write_text(ASSESSOR)
    field.begin(
        """
if number == "0":
    report_both()
elif number == "1":
    print("no such luck", file=sys.stderr)
    sys.exit(3)
elif number == "2":
    wait("never")
elif number == "3":
    nni.report_intermediate_result(9.0)
    wait("never")
""",
        trials=4,
        assessor={"className": "harsh.Harsh", "codeDirectory": str(field.directory)},
    )
    third = field.until_running(2)[2]
    assert field.log(third["id"], "stdout") == b"hello 2\n"
    field.stop_trial(third["id"])
    trials = field.done()
    assert [trial["status"] for trial in trials] == ["SUCCEEDED", "FAILED", "USER_CANCELED", "EARLY_STOPPED"]
    first, second = trials[:2]
    x = first["parameters"]["x"]
    assert [(m["type"], m["value"]) for m in field.metrics(first["id"])] == [("PERIODICAL", x), ("FINAL", x)]
    assert second["reason"] == "exited with code 3: no such luck"
    assert field.log(second["id"], "stderr") == b"no such luck\n"
    for number, trial in enumerate(trials):
        assert field.log(trial["id"], "stdout") == f"hello {number}\n".encode()
        assert field.starts(number) == [f"exp-{trial['id']}-1"]
    codes = eventually(lambda: field.exit_codes(count=4), "the exit codes", LIMIT_S)
    assert [codes[trial["id"]] for trial in trials] == [0, 3, 143, 143]

    field.nnictl("stop", "exp")
    answer = field.server.call("DELETE", field.url)
    assert answer.status == 200, answer.body
    eventually(lambda: not field.place.left(), "nothing in the cluster", LIMIT_S)


@pytest.mark.parametrize("stopped", [False, True])
def test_trials_that_spoil_what_their_keepers_need_end(field: Field, stopped: bool) -> None:
    records = field.place.shared / "records"
    records.mkdir()
    own = f"import os\nos.environ['RECORDS'] = '{SHARED}/records'\n"
    field.begin(own + vandalism.TRIAL, trials=vandalism.TRIALS)
    eventually(lambda: vandalism.all_have_spoiled(records), "the damage", LIMIT_S)
    if stopped:
        field.nnictl("stop", "exp")
    else:
        (records / "go").touch()
        trials = field.done(vandalism.LIMIT_S)
        assert vandalism.unexplained(trials) == []
    assert vandalism.started_once(records)


def test_a_stopped_experiment_is_resumed(field: Field) -> None:
    field.begin("wait('go')\nreport_both()", trials=2, trialConcurrency=1)
    field.until_running(0)
    field.nnictl("stop", "exp")
    assert "secret/nnimgr-exp" not in field.place.left()
    field.release("go")
    field.nnictl("resume", "exp")
    trials = field.done()
    assert [trial["status"] for trial in trials][-1] == "SUCCEEDED"


def test_neither_server_nor_api_server_nor_kubelet_is_needed_by_what_runs(field: Field) -> None:
    field.begin(
        """
for step in range(4):
    wait(f"go-{step}")
    nni.report_intermediate_result(step)
report_both()
""",
        trials=3,
    )
    trials = field.until_running(0, 1, 2)

    def reported(count: int) -> None:
        def look() -> bool:
            return all(len(field.metrics(trial["id"])) >= count for trial in trials.values())

        eventually(look, f"{count} metrics\n{field.server.said}", LIMIT_S)

    field.restart()
    field.release("go-0")
    reported(1)
    with without("kube-apiserver"):
        field.saying("the cluster has not answered")
        field.release("go-1")
        reported(2)
        field.server.end(signal.SIGKILL)
    field.restart()
    answers()
    eventually(lambda: "the cluster has not answered" not in field.said(), "the cluster", LIMIT_S)
    with without("kubelet"):
        field.release("go-2")
        reported(3)
        field.release("go-3")
        ended = field.done()
    assert [trial["status"] for trial in ended] == ["SUCCEEDED"] * 3
    for number, trial in enumerate(ended):
        x = trial["parameters"]["x"]
        assert [metric["value"] for metric in field.metrics(trial["id"])] == [0, 1, 2, 3, x, x]
        assert field.starts(number) == [f"exp-{trial['id']}-1"]
    assert len(field.place.pods()) == 3


def test_ends_that_are_not_the_trials_own(field: Field) -> None:
    field.begin(
        """
if number == "0":
    grown = [b"x" * 1_000_000 for _ in range(1_000)]
elif number == "1":
    wait("never") if os.environ["NNIMGR_JOB_ID"].endswith("-1") else report_both()
elif number == "2":
    wait("never")
""",
        trials=3,
        service={"activeDeadline": "45s", "resources": {"memory": "96Mi"}},
    )
    second = field.until_running(1)[1]
    [pod] = [p for p in field.place.pods() if p["metadata"]["labels"]["nnimgr.io/trial"] == second["id"]]
    field.place.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    trials = field.done(2 * LIMIT_S)  # a further pod has a deadline of its own
    assert [trial["status"] for trial in trials] == ["FAILED", "SUCCEEDED", "FAILED"]
    assert trials[0]["reason"].endswith(": killed for lack of memory: the limit is 96 MiB"), trials[0]
    assert (trials[1]["attempt"], trials[2]["attempt"]) == (2, 1), trials
    assert "activeDeadlineSeconds of 45 s" in trials[2]["reason"], trials[2]


def test_pods_of_a_pool_are_shared_and_go_when_idle(field: Field) -> None:
    field.begin(
        "wait('go') if number in '01' else wait('end') if number == '5' else None\nreport_both()",
        trials=6,
        trialConcurrency=2,
        service={"reuseMode": True, "reuseIdle": "5s"},
    )
    field.until_running(0, 1)
    field.release("go")
    field.until_running(5)

    def phases() -> list[str]:
        return sorted(pod["status"]["phase"] for pod in field.place.pods())

    eventually(lambda: phases() == ["Running", "Succeeded"], "the end of the idle pod", LIMIT_S)
    field.release("end")
    assert [trial["status"] for trial in field.done()] == ["SUCCEEDED"] * 6
    assert len(field.place.pods()) == 2


PROBE = ("run", "probe", "--image=none", "--dry-run=server", "--output=name")


def test_a_sidecar_does_not_keep_the_pods_of_ended_trials(field: Field) -> None:
    image = field.place.config()["trainingService"]["image"]
    sidecar = {"name": "sidecar", "image": image, "command": ["sleep", "1000"]}
    sidecar["imagePullPolicy"] = "IfNotPresent"
    field.begin("report_both()", trials=2, service={"podTemplate": {"spec": {"containers": [sidecar]}}})
    assert [trial["status"] for trial in field.done()] == ["SUCCEEDED"] * 2
    eventually(lambda: not field.place.pods(), "the pods to be deleted", LIMIT_S)


def test_what_keeps_trials_from_running_is_said(field: Field) -> None:
    """Each experiment in a plight of its own, all on one server."""
    with namespace() as full, namespace() as forbidden:
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none"},
            "spec": {"hard": {"pods": "0"}},
        }
        kubectl("-n", full, "create", "-f", "-", given=quota)

        def refuses_pods() -> bool:  # those that come before the API server knows the quota are let in
            return not kubectl("-n", full, *PROBE, check=False)

        eventually(refuses_pods, "the quota", LIMIT_S)
        account = Account(forbidden, field.directory)
        plights: dict[str, dict[str, Any]] = {
            "image": {"image": "localhost/there-is-none:1"},
            "command": {"python": "/no/such/python"},
            "node": {"nodeSelector": {"nnimgr.io/test": "nowhere"}},
            "quota": {"namespace": full},
            "rights": {"namespace": forbidden, "kubeconfig": str(account.kubeconfig)},
        }
        for name, service in plights.items():
            body = field.body("true", **field.place.config(volumes=[], **service)) | {"id": name}
            assert field.server.call("POST", "/api/v1/experiments", body).status == 201
        assert "localhost/there-is-none:1" in field.waiting("the image", "image")
        field.waiting("/no/such/python", "command")
        field.waiting("no node accepts the pod: 0/", "node")
        field.waiting("the cluster cannot create the pod: exceeded quota: none", "quota")
        field.waiting("forbidden", "rights")

        account.permit()
        kubectl("-n", full, "delete", "quota", "none")
        for name in ("quota", "rights"):

            def done(name: str = name) -> bool:
                return bool(field.server.call("GET", f"/api/v1/experiments/{name}").body["status"] == "DONE")

            eventually(done, f"the end of {name}: {field.waiting('', name)}\n{field.server.said}", LIMIT_S)
        for name in plights:
            field.server.call("POST", f"/api/v1/experiments/{name}/stop")


class Account:
    """A service account of a namespace that may nothing there, until it is permitted what nnimgr needs."""

    def __init__(self, name: str, directory: Path) -> None:
        self._namespace = name
        kubectl("-n", name, "create", "serviceaccount", "manager")
        address = f"/api/v1/namespaces/{name}/serviceaccounts/manager/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = json.loads(kubectl("create", "--raw", address, "-f", "-", given=asked))
        whole = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        whole["users"] = [{"name": "manager", "user": {"token": answer["status"]["token"]}}]
        whole["contexts"][0]["context"]["user"] = "manager"
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(whole))

    def permit(self) -> None:
        for group, kinds in (("", "pods,pods/log,secrets,configmaps,events"), ("batch", "jobs")):
            rule = {"apiGroups": [group], "resources": kinds.split(","), "verbs": ["*"]}
            self._grant(f"manager-{group or 'core'}", rule)

    def _grant(self, name: str, rule: dict[str, Any]) -> None:
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
        subject = {"kind": "ServiceAccount", "name": "manager", "namespace": self._namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        binding = {"subjects": [subject], "roleRef": reference}
        for each in ({**head, "kind": "Role", "rules": [rule]}, {**head, "kind": "RoleBinding", **binding}):
            kubectl("-n", self._namespace, "create", "-f", "-", given=each)
