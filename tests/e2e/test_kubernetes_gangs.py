"""Trials whose members are pods of a real cluster, which lose pods and their server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import ground
from tests.e2e.scene import eventually
from tests.e2e.test_kubernetes import LIMIT_S, Field
from tests.kubernetes.conftest import PYTHON
from tests.server.harness import nothing_left

# Each member meets the leader at MASTER_ADDR, and notes what it knows.
MEET = """
import socket
rank, size, round_ = os.environ["RANK"], int(os.environ["WORLD_SIZE"]), os.environ["NNIMGR_GANG_ROUND"]
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == "0":
    listener = socket.create_server(("", address[1]))
    met = [listener.accept()[0] for _ in range(size - 1)]
else:
    while True:
        try:
            met = [socket.create_connection(address)]
            break
        except OSError:
            time.sleep(0.05)
state = nni.load_checkpoint()
if rank == "0" and state is None:
    nni.save_checkpoint({"step": 3}, step=3)
found = {name: os.environ[name] for name in ("MASTER_ADDR", "NNIMGR_GANG_HOSTS", "NNIMGR_GANG_RANK")}
found["step"] = None if state is None else state["step"]
(shared / f"new-{rank}").write_text(json.dumps(found))
os.rename(shared / f"new-{rank}", shared / f"{round_}-{rank}")
wait("end")
nni.report_final_result(1.0 if rank == "0" else 99.0)
"""


class Gangs(Field):
    """An experiment of one trial with two pods."""

    def begin_gang(self, **more: Any) -> None:
        self.begin(MEET, trials=1, gang={"nodes": 2}, **more)

    def members(self, round_: int = 1) -> list[dict[str, Any]]:
        """Return what the members of an attempt have noted, once all have met."""

        def read() -> list[dict[str, Any]]:
            paths = [self.place.shared / f"{round_}-{rank}" for rank in range(2)]
            return [json.loads(path.read_text()) for path in paths if all(map(Path.exists, paths))]

        what = f"all members of attempt {round_}, not {self.trials()}\n{self.server.said}"
        return eventually(read, what, LIMIT_S)

    def finish(self) -> dict[str, Any]:
        """Let the trial end; return what is known about it then."""
        self.release("end")
        (trial,) = self.done(LIMIT_S)
        return dict(self.get(f"/trials/{trial['id']}"))

    def names(self, *phases: str) -> list[str]:
        """Return the names of the Jobs of the pods in these phases."""
        pods = [pod for pod in self.place.pods() if pod["status"]["phase"] in phases]
        return sorted(pod["metadata"]["labels"]["nnimgr.io/keeper"] for pod in pods)


@pytest.fixture
def gangs(tmp_path: Path) -> Iterator[Gangs]:
    shared = tmp_path / "shared"
    shared.mkdir()
    with ground(shared) as place, nothing_left(tmp_path), contextlib.ExitStack() as stack:
        found = Gangs(stack, tmp_path, place)
        try:
            yield found
        finally:
            if found.server.process.poll() is None:
                found.server.call("POST", f"{found.url}/stop")


def test_pods_meet_and_a_killed_server_loses_nothing(gangs: Gangs) -> None:
    gangs.begin_gang()
    members = gangs.members()
    gangs.restart()
    hosts = members[0]["NNIMGR_GANG_HOSTS"].split(",")
    addresses = {pod["status"]["podIP"] for pod in gangs.place.pods()}
    assert {*hosts} == addresses and len(addresses) == 2
    assert [(each["MASTER_ADDR"], each["NNIMGR_GANG_RANK"]) for each in members] == [
        (hosts[0], "0"),
        (hosts[0], "1"),
    ]
    trial = gangs.finish()
    assert (trial["status"], trial["finalValue"], len(trial["jobs"])) == ("SUCCEEDED", 1.0, 1)
    assert [member["endReason"] for member in trial["jobs"][0]["members"]] == ["exited", "exited"]
    eventually(lambda: len(gangs.names("Succeeded")) == 2, "the ends of both pods", LIMIT_S)
    assert "hello 0" in gangs.nnictl("log", "trial", "exp", "-T", "0", "--member", "1")
    gangs.nnictl("stop", "exp")
    assert gangs.server.call("DELETE", gangs.url).status == 200
    eventually(lambda: not gangs.place.left(), "nothing in the cluster", LIMIT_S)


@pytest.mark.parametrize("number", [0, 1])
def test_a_deleted_pod_costs_an_attempt_and_no_step(gangs: Gangs, number: int) -> None:
    gangs.begin_gang()
    first = gangs.members()
    assert [member["step"] for member in first] == [None, None]
    path = f"/trials/{gangs.trials()[0]['id']}"
    eventually(
        lambda: [each for each in gangs.get(path)["checkpoints"] if each["kept"]],
        "the copy of the checkpoint",
        LIMIT_S,
    )
    address = first[0]["NNIMGR_GANG_HOSTS"].split(",")[number]
    victim = next(pod for pod in gangs.place.pods() if pod["status"]["podIP"] == address)
    gangs.place.kubectl("delete", "pod", victim["metadata"]["name"], "--wait=false")
    assert [member["step"] for member in gangs.members(2)] == [3, 3]
    eventually(lambda: len(gangs.names("Running", "Pending")) == 2, "the end of the first pods", LIMIT_S)
    trial = gangs.finish()
    assert [job["endReason"] for job in trial["jobs"]] == ["lost", "exited"]
    eventually(lambda: not gangs.names("Running", "Pending"), "the end of all pods", LIMIT_S)


def test_a_server_that_is_killed_while_pods_come_makes_none_twice(gangs: Gangs) -> None:
    gangs.begin_gang()
    for _ in range(3):
        gangs.restart()
    gangs.members()
    trial = gangs.finish()
    assert (trial["status"], len(trial["jobs"])) == ("SUCCEEDED", 1)
    assert len(gangs.place.pods()) == 2
    assert len((gangs.place.shared / "starts-0").read_text().split()) == 2


def test_a_pod_that_no_node_takes_is_named(gangs: Gangs) -> None:
    """The node of this machine has room for one of the pods."""
    nodes = json.loads(gangs.place.kubectl("get", "nodes", "-o", "json"))["items"]
    cpus = int(nodes[0]["status"]["allocatable"]["cpu"])
    gangs.begin_gang(trialCpuNumber=cpus * 0.6)
    reason = gangs.waiting("1 is running; no node accepts the pod: 0/1 nodes are available: ")
    assert reason.startswith("waits for 2 pods: ") and "Insufficient cpu" in reason
    (trial,) = gangs.trials()
    gangs.stop_trial(trial["id"])
    eventually(lambda: not gangs.names("Running", "Pending"), "the end of all pods", LIMIT_S)


GROW = """
state = nni.load_checkpoint() or {"step": 0}
if os.environ.get("RANK", "0") == "0":
    nni.save_checkpoint({"step": state["step"] + 1}, step=state["step"] + 1)
while os.environ["NNIMGR_GANG_SIZE"] != "2":
    if nni.should_checkpoint():
        nni.save_checkpoint({"step": 2}, step=2)
    time.sleep(0.05)
nni.report_final_result(float(state["step"]))
"""


def test_a_trial_gets_a_pod_when_the_node_has_room(gangs: Gangs) -> None:
    nodes = json.loads(gangs.place.kubectl("get", "nodes", "-o", "json"))["items"]
    cpus = int(nodes[0]["status"]["allocatable"]["cpu"])
    request = {"requests": {"cpu": str(cpus * 0.6)}}
    sleep = {"name": "sleep", "image": PYTHON, "command": ["sleep", "1000"], "resources": request}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": {"containers": [sleep]}}
    gangs.place.kubectl("create", "-f", "-", given=pod)
    gangs.place.kubectl("wait", "--for=condition=PodScheduled", "pod/other")
    gang = {"nodes": "1:2", "growAfter": "1s"}
    gangs.begin(GROW, trials=1, trialCpuNumber=cpus * 0.3, gang=gang)
    alone = "runs with 1 of 1 to 2 members"
    eventually(lambda: [trial for trial in gangs.trials() if trial["reason"] == alone], alone, LIMIT_S)
    gangs.place.kubectl("delete", "pod", "other", "--wait=false", "--grace-period=0", "--force")
    (trial,) = gangs.done(LIMIT_S)
    jobs = gangs.get(f"/trials/{trial['id']}")["jobs"]
    assert [max(1, len(job["members"])) for job in jobs] == [1, 2]
    assert (trial["status"], trial["finalValue"]) == ("SUCCEEDED", 2.0)
    eventually(lambda: not gangs.names("Running", "Pending"), "the end of all pods", LIMIT_S)


ROLES = """
import socket
cluster = json.loads(os.environ["TF_CONFIG"])
task, index = cluster["task"]["type"], cluster["task"]["index"]
if task == "ps":
    host, port = cluster["cluster"]["ps"][index].rsplit(":", 1)
    socket.create_server((host, int(port))).accept()[0].sendall(b"7")
    wait("never")
host, port = cluster["cluster"]["ps"][0].rsplit(":", 1)
while True:
    try:
        number = socket.create_connection((host, int(port))).recv(1)
        break
    except OSError:
        time.sleep(0.05)
nni.report_final_result(int(number))
"""


def test_members_of_roles_find_each_other_as_with_an_operator(gangs: Gangs) -> None:
    roles = {"worker": {"cpuNumber": 0.5}, "ps": {"memorySize": "200mb", "command": "exec python3 trial.py"}}
    gangs.begin(ROLES, trials=1, gang={"roles": roles, "exitBarrier": "10s"}, trialCpuNumber=0.25)
    eventually(lambda: gangs.names("Succeeded"), "the end of the leader's pod", LIMIT_S)
    gangs.restart()  # the other member is still waited for
    (trial,) = gangs.done(LIMIT_S)
    assert (trial["status"], trial["finalValue"]) == ("SUCCEEDED", 7.0)
    limits = {
        pod["metadata"]["labels"]["nnimgr.io/keeper"][-3:]: pod["spec"]["containers"][0]["resources"][
            "limits"
        ]
        for pod in gangs.place.pods()
    }
    assert limits == {f"{trial['id'][-1]}-1": {"cpu": "500m"}, "-m1": {"cpu": "250m", "memory": "200Mi"}}
    eventually(lambda: not gangs.names("Running", "Pending"), "the end of all pods", LIMIT_S)
