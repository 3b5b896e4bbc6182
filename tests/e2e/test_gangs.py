"""Trials with members on several hosts: here beside each other on one host, on a real server."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, product
from tests.e2e.scene import Scene, eventually, scene
from tests.server.harness import nothing_left, serving
from trial_keeper.gang_line import ports
from trial_keeper.machine.capacity import capacity

MEMBERS = ("stdout", "member-1/stdout", "member-2/stdout")

TRIAL = """
import json, os, sys, time
import nni

parameters = nni.get_next_parameter()
names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NNIMGR_GANG_SIZE")
found = {name: os.environ[name] for name in names}
print(json.dumps({**found, "pid": os.getpid()}), flush=True)
state = nni.load_checkpoint() or {"step": 0}
for step in range(state["step"], 2):
    nni.save_checkpoint({"step": step + 1}, step=step + 1)
    if os.environ["RANK"] == "3" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and step == 1:
        raise ValueError("as expected")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
nni.report_final_result(parameters["x"] if os.environ["RANK"] == "0" else 100)
"""


def create(own: Product, **changes: Any) -> str:
    code = own.directory / "code"
    code.mkdir(exist_ok=True)
    (code / "trial.py").write_text(TRIAL)
    return own.create(
        "code",
        {
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trialCommand": f"{sys.executable} trial.py {own.directory}/end",
            "trialCodeDirectory": str(code),
            "trialConcurrency": 1,
            "maxTrialNumber": 1,
            "gang": {"nodes": 2, "processes": 2, "sameHost": True},
            "maxRetries": {"userError": 1},
            "goal": "maximize",
            "tuner": {"name": "Random"},
            **changes,
        },
    )


def trial(own: Product, experiment: str) -> dict[str, Any]:
    return json.loads(own.nnictl("trial", "show", experiment, "-T", "0", "--json"))  # type: ignore[no-any-return]


def said(path: Path) -> dict[str, Any] | None:
    """Return what a worker has printed, if it has."""
    lines = path.read_text().splitlines() if path.exists() else []
    return json.loads(lines[0]) if lines else None


def test_a_failed_member_ends_all_and_the_next_attempt_continues_all(tmp_path: Path) -> None:
    with product("nnimgr-gangs-") as own:
        experiment = create(own)
        (folder,) = eventually(lambda: list((own.home / experiment / "trials").glob("*")), "the trial")
        second = folder / "attempt-2"
        paths = [
            second / "stdout",
            second / "ranks/1/stdout",
            second / "member-1/stdout",
            second / "member-1/ranks/3/stdout",
        ]
        eventually(lambda: all(map(said, paths)), "the second attempt")
        found = [seen for path in paths if (seen := said(path))]
        assert [(each["RANK"], each["GROUP_RANK"], each["LOCAL_RANK"]) for each in found] == [
            ("0", "0", "0"), ("1", "0", "1"), ("2", "1", "0"), ("3", "1", "1"),
        ]  # fmt: skip
        assert {each["WORLD_SIZE"] for each in found} == {"4"}
        assert {each["MASTER_ADDR"] for each in found} == {"127.0.0.1"}
        assert len({each["MASTER_PORT"] for each in found}) == 1
        (own.directory / "end").touch()
        assert own.wait(experiment, limit_s=120)["counts"] == {"SUCCEEDED": 1}
        shown = trial(own, experiment)
        first, last = shown["jobs"]
        assert first["message"].startswith("rank 3 failed first: ValueError: as expected; ")
        assert first["message"].endswith("(member 1 on local)")
        assert [member["state"] for member in last["members"]] == ["ended", "ended"]
        assert shown["finalValue"] < 1
        assert "member 1: on this machine, " in own.nnictl("trial", "show", experiment, "-T", "0")
        log = own.nnictl("log", "trial", experiment, "-T", "0", "--member", "1")
        assert json.loads(log.splitlines()[0])["RANK"] == "2"
        assert "ranks/3/stdout" in own.nnictl("trial", "files", experiment, "-T", "0", "--member", "1")
        with pytest.raises(RuntimeError, match="has no member 2: it has 2 members, from 0 on"):
            own.nnictl("log", "trial", experiment, "-T", "0", "--member", "2")


def test_a_gang_goes_on_without_a_server_and_is_adopted(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(nothing_left(tmp_path))
        here = Scene(stack.enter_context(serving(tmp_path)), tmp_path)
        command = f"{here.script(TRIAL)} {tmp_path}/end"
        here.create(command, gang={"nodes": 3, "sameHost": True})
        trial_id = here.running()["id"]
        outputs = [here.folder / "trials" / trial_id / name for name in MEMBERS]
        eventually(lambda: all(map(said, outputs)), "the members")
        pids = [seen["pid"] for path in outputs if (seen := said(path))]
        here.server.end(signal.SIGKILL)
        here = Scene(stack.enter_context(serving(tmp_path, port=here.server.port)), tmp_path)
        assert here.running()["attempt"] == 1
        assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
        (tmp_path / "end").touch()
        (ended,) = here.done()
        assert ended["status"] == "SUCCEEDED" and len(here.get(f"/trials/{trial_id}")["jobs"]) == 1


ROLE = """
import json, os, sys, nni
nni.get_next_parameter()
names = ("ROLE_NAME", "ROLE_RANK", "RANK")
print(json.dumps([sys.argv[1], *(os.environ[name] for name in names)]), flush=True)
nni.report_final_result(1 if sys.argv[1] == "lead" else 99)
"""


def test_members_of_several_roles_run_their_own_commands(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        command = here.script(ROLE)
        roles = {"main": {"command": f"{command} lead"}, "worker": {"replicas": 2}}
        here.create(f"{command} help", gang={"roles": roles, "sameHost": True})
        (ended,) = here.done()
        assert (ended["status"], ended["finalValue"]) == ("SUCCEEDED", 1.0)
        outputs = [here.folder / "trials" / ended["id"] / name for name in MEMBERS]
        assert [json.loads(path.read_text()) for path in outputs] == [
            ["lead", "main", "0", "0"],
            ["help", "worker", "0", "1"],
            ["help", "worker", "1", "2"],
        ]


CPUS = capacity("/")["cpus"]
SIZES = (
    *("NNIMGR_GANG_RANK", "NNIMGR_GANG_SIZE", "NNIMGR_GANG_MIN", "NNIMGR_GANG_MAX"),
    *("PET_NNODES", "WORLD_SIZE"),
)
SHOWN = f"""
import json, os, nni
nni.get_next_parameter()
print(json.dumps([os.environ.get(name) for name in {SIZES}]), flush=True)
nni.report_final_result(1)
"""


@pytest.mark.parametrize(("nodes", "part", "size"), [("2:4", 3, 3), ("1:3", 1, 1)])
def test_a_trial_has_the_members_that_have_room(tmp_path: Path, nodes: str, part: int, size: int) -> None:
    with scene(tmp_path) as here:
        gang = {"nodes": nodes, "sameHost": True}
        here.create(here.script(SHOWN), gang=gang, trialCpuNumber=CPUS / part)
        (ended,) = here.done()
        assert ended["status"] == "SUCCEEDED"
        (job,) = here.get(f"/trials/{ended['id']}")["jobs"]
        assert len(job["members"]) == (size if size > 1 else 0)
        for number in range(size):
            folder = here.attempt(ended["id"]) / (f"member-{number}" if number else "")
            least, _, most = nodes.partition(":")
            found = json.loads((folder / "stdout").read_text().splitlines()[0])
            assert found == [str(number), str(size), least, most, str(size), str(size)]


GROWING = """
import json, os, time
import nni
nni.get_next_parameter()
step = (nni.load_checkpoint() or {"step": 0})["step"]
print(json.dumps({"size": os.environ["WORLD_SIZE"], "step": step}), flush=True)
if os.environ["RANK"] == "0" and not step:
    nni.save_checkpoint({"step": 1}, step=1)
while os.environ["WORLD_SIZE"] != "4":
    if os.environ["RANK"] == "0" and nni.should_checkpoint():
        nni.save_checkpoint({"step": 2}, step=2)
    time.sleep(0.02)
nni.report_final_result(1)
"""


def _runs(here: Scene, experiment: str) -> bool:
    trials = here.server.call("GET", f"/api/v1/experiments/{experiment}/trials").body["trials"]
    return any(each["status"] == "RUNNING" for each in trials)


@pytest.mark.parametrize("killed", [False, True])
def test_a_trial_continues_with_more_members_when_there_is_room(tmp_path: Path, killed: bool) -> None:
    with ExitStack() as stack:
        stack.enter_context(nothing_left(tmp_path))
        here = Scene(stack.enter_context(serving(tmp_path)), tmp_path)
        other = here.body(f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done", trialCpuNumber=CPUS / 2)
        assert here.server.call("POST", "/api/v1/experiments", {**other, "id": "other"}).status == 201
        eventually(lambda: _runs(here, "other"), "the trial of the other experiment")
        gang = {"nodes": "2:4", "sameHost": True, "growAfter": "1s"}
        here.create(here.script(GROWING), gang=gang, trialCpuNumber=CPUS / 4)
        trial_id = here.running()["id"]
        assert here.trial()["reason"] == "runs with 2 of 2 to 4 members"
        (tmp_path / "end").touch()
        if killed:
            here.server.end(signal.SIGKILL)
            here = Scene(stack.enter_context(serving(tmp_path, port=here.server.port)), tmp_path)
        (ended,) = here.done()
        assert ended["status"] == "SUCCEEDED"
        first, second = here.get(f"/trials/{trial_id}")["jobs"]
        assert (len(first["members"]), len(second["members"])) == (2, 4)
        assert (first["endReason"], first["cause"]) == ("stopped", None)
        assert said(here.attempt(trial_id) / "attempt-2" / "stdout") == {"size": "4", "step": 2}
        (due,) = here.reasons("AttemptDue")
        assert due.endswith("for 4 of 2 to 4 members for 1 s; the trial will continue from step 2")


def test_a_stopped_trial_leaves_no_member(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(nothing_left(tmp_path))
        here = Scene(stack.enter_context(serving(tmp_path)), tmp_path)
        here.create(f"{here.script(TRIAL)} {tmp_path}/end", gang={"nodes": 2, "sameHost": True})
        trial_id = here.running()["id"]
        output = here.folder / "trials" / trial_id / MEMBERS[1]
        found = eventually(lambda: said(output), "the member") or {}
        assert here.server.call("POST", f"{here.url}/trials/{trial_id}/stop").status == 202
        here.done()
        assert here.trial()["status"] == "USER_CANCELED" and not os.path.exists(f"/proc/{found['pid']}")


def test_an_impostor_on_the_first_port_keeps_no_member_from_its_leader(tmp_path: Path) -> None:
    """The impostor has the port before the second attempt, and answers all who greet it."""
    command = f'[ "$NNIMGR_GANG_ROUND" = 2 ] || until [ -e {tmp_path}/end ]; do sleep 0.02; done; '
    command += "echo $MASTER_PORT; [ $NNIMGR_GANG_ROUND = 2 ]"
    greeted: list[bytes] = []

    def deceive(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer:
                    greeted.append(peer.recv(1 << 14))
                    answer = {**json.loads(greeted[-1]), "proof": "0" * 64}
                    peer.sendall(json.dumps(answer).encode() + b"\n")

    with ExitStack() as stack:
        stack.enter_context(nothing_left(tmp_path))
        here = Scene(stack.enter_context(serving(tmp_path)), tmp_path)
        here.create(command, gang={"nodes": 2, "sameHost": True}, maxRetries={"userError": 1})
        (first,) = here.get(f"/trials/{here.running()['id']}")["jobs"]
        job_id = str(first["id"]).removesuffix("1") + "2"
        port = ports(job_id)[0]
        listener = stack.enter_context(socket.create_server(("127.0.0.1", port)))
        stack.callback(lambda: listener.shutdown(socket.SHUT_RDWR))
        threading.Thread(target=deceive, args=(listener,), daemon=True).start()
        (tmp_path / "end").touch()
        (ended,) = here.done()
        assert ended["status"] == "SUCCEEDED", ended["reason"]
        assert {json.loads(each)["job"] for each in greeted} == {job_id}
        folder = here.folder / "trials" / ended["id"] / "attempt-2"
        assert (folder / "stdout").read_text() == (folder / MEMBERS[1]).read_text()


def test_a_member_that_hangs_after_its_leader_is_stopped_and_the_trial_has_succeeded(tmp_path: Path) -> None:
    script = """
import os, signal
import nni

nni.get_next_parameter()
if os.environ["RANK"] == "1":
    signal.pause()
nni.report_final_result(0.5)
"""
    with ExitStack() as stack:
        stack.enter_context(nothing_left(tmp_path))
        here = Scene(stack.enter_context(serving(tmp_path)), tmp_path)
        here.create(here.script(script), gang={"nodes": 2, "sameHost": True, "exitBarrier": "2s"})
        (ended,) = here.done()
        assert (ended["status"], ended["finalValue"]) == ("SUCCEEDED", 0.5)
        assert ended["note"] == "member 1 on local was stopped, because it had not ended 2 s after the leader"
        (job,) = here.get(f"/trials/{ended['id']}")["jobs"]
        assert [member["endReason"] for member in job["members"]] == ["exited", "stopped"]
