"""Trials with members on several machines over SSH, which lose workers, machines and their server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.remote import Field, field
from tests.e2e.scene import eventually
from tests.machines.bed import Bed, bed
from tests.machines.machine import kill
from tests.processes import Process, environ

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="machines with networks of their own need root")

NAMES = (
    *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"),
    *("MASTER_ADDR", "MASTER_PORT", "NNIMGR_GANG_RANK", "NNIMGR_GANG_HOSTS", "NNIMGR_GANG_ENDPOINT"),
    "NNIMGR_GANG_ROUND",
)
TRIAL = """
import json, os, select, socket
import nni

nni.get_next_parameter()
records = os.environ["RECORDS"]
rank, round_ = os.environ["RANK"], os.environ["NNIMGR_GANG_ROUND"]
found = {name: os.environ[name] for name in NAMES}
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == "0":
    listener = socket.create_server(("", address[1]))
    met = []
    for _ in range(int(os.environ["WORLD_SIZE"]) - 1):
        met.append(listener.accept()[0])
else:
    for _ in range(200):
        try:
            met = [socket.create_connection(address)]
            break
        except OSError:
            select.select([], [], [], 0.1)
with open(f"{records}/new-{rank}", "w") as file:
    json.dump(found, file)
os.rename(f"{records}/new-{rank}", f"{records}/{round_}-{rank}")
while not os.path.exists(f"{records}/end"):
    select.select([], [], [], 0.05)
nni.report_final_result(1.0 if rank == "0" else 99.0)
"""


@pytest.fixture
def found() -> Iterator[Bed]:
    with bed() as made:
        yield made


class Gangs(Field):
    """An experiment of one trial, whose two members have two workers each."""

    def begin_gang(self, *, nodes: int | str = 2, **more: Any) -> None:
        code = self.directory / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL.replace("NAMES", repr(NAMES)))
        service = {
            "platform": "remote",
            "keepAliveInterval": 1,
            "machineList": [machine.entry() for machine in self.machines],
        }
        fields = {"trialCodeDirectory": str(code), "silentAfter": "2s", "trainingService": service}
        self.create("python3 trial.py", gang={"nodes": nodes, "processes": 2}, **(fields | more))

    def workers(self, round_: int = 1, *, count: int = 4) -> list[dict[str, Any]]:
        """What the workers of an attempt have written, by rank, once all of them have met."""

        def read() -> dict[int, dict[str, Any]]:
            paths = [path for machine in self.machines for path in machine.records.glob(f"{round_}-*")]
            found = {int(path.name.partition("-")[2]): json.loads(path.read_text()) for path in paths}
            return found if len(found) == count else {}

        whole = eventually(read, f"all workers of attempt {round_}", 60)
        return [whole[rank] for rank in range(count)]

    def processes_of(self, rank: int) -> list[Process]:
        """Return the processes of the worker with this rank, on any machine."""
        mark = f"RANK={rank}".encode()
        return [
            process
            for machine in self.machines
            for process in machine.processes()
            if "trial.py" in process.command and mark in environ(process.pid)
        ]

    def waiting_for(self, part: str) -> str:
        """Return why the trial waits, once this is a part of it."""

        def look() -> str:
            reasons = [str(trial["reason"]) for trial in self.trials() if trial["status"] == "WAITING"]
            return next((reason for reason in reasons if part in reason), "")

        return eventually(look, f"a trial that waits: {part}", 60)

    def finish(self) -> dict[str, Any]:
        """Let the trial end; return what is known about it then."""
        for machine in self.machines:
            (machine.records / "end").touch()
        (trial,) = self.done(90)
        return dict(self.get(f"/trials/{trial['id']}"))


def test_workers_on_two_machines_meet_and_have_common_ranks(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(2)]
    with field(tmp_path, found, machines, kind=Gangs) as gangs:
        assert isinstance(gangs, Gangs)
        gangs.begin_gang()
        workers = gangs.workers()
        hosts = workers[0]["NNIMGR_GANG_HOSTS"].split(",")
        assert sorted(hosts) == sorted(machine.host for machine in machines)
        for rank, worker in enumerate(workers):
            assert [worker[name] for name in NAMES[:7]] == [
                str(rank), str(rank % 2), str(rank // 2), str(rank), "4", "2", "2",
            ]  # fmt: skip
            assert (worker["MASTER_ADDR"], worker["NNIMGR_GANG_HOSTS"]) == (hosts[0], ",".join(hosts))
            assert worker["NNIMGR_GANG_ENDPOINT"] == f"{hosts[0]}:{workers[0]['MASTER_PORT']}"
        trial = gangs.finish()
        assert (trial["status"], trial["finalValue"]) == ("SUCCEEDED", 1.0)
        (job,) = trial["jobs"]
        assert [member["endReason"] for member in job["members"]] == ["exited", "exited"]
        assert len({member["keeperId"] for member in job["members"]}) == 2


def test_a_killed_worker_ends_all_and_is_named(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(2)]
    with field(tmp_path, found, machines, kind=Gangs) as gangs:
        assert isinstance(gangs, Gangs)
        gangs.begin_gang()
        workers = gangs.workers()
        assert kill(gangs.processes_of(3))
        (trial,) = gangs.done(60)
        other = next(machine for machine in machines if machine.host != workers[0]["MASTER_ADDR"])
        assert trial["status"] == "FAILED"
        assert (
            "rank 3 failed first: killed by signal 9; the other one was stopped (member 1 on "
            in trial["reason"]
        )
        assert other.host in trial["reason"]
        assert not any(gangs.processes_of(rank) for rank in range(4))


def test_a_machine_that_is_rebooted_costs_an_attempt(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(2)]
    with field(tmp_path, found, machines, kind=Gangs) as gangs:
        assert isinstance(gangs, Gangs)
        gangs.begin_gang()
        leader = gangs.workers()[0]["MASTER_ADDR"]
        next(machine for machine in machines if machine.host != leader).reboot()
        assert {worker["NNIMGR_GANG_ROUND"] for worker in gangs.workers(2)} == {"2"}
        trial = gangs.finish()
        assert trial["status"] == "SUCCEEDED" and [job["endReason"] for job in trial["jobs"]] == [
            "lost",
            "exited",
        ]


def test_a_machine_that_stays_off_is_replaced_when_its_lease_has_ended(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(3)]
    with field(tmp_path, found, machines, kind=Gangs) as gangs:
        assert isinstance(gangs, Gangs)
        gangs.begin_gang(lease="10s")
        first = gangs.workers()[0]["NNIMGR_GANG_HOSTS"].split(",")
        victim = next(machine for machine in machines if machine.host == first[0])
        victim.power_off()
        second = gangs.workers(2)[0]["NNIMGR_GANG_HOSTS"].split(",")
        assert victim.host not in second
        trial = gangs.finish()
        assert trial["status"] == "SUCCEEDED" and trial["jobs"][0]["endReason"] == "lost"


def test_a_trial_goes_on_without_a_machine_that_stays_off(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(3)]
    with field(tmp_path, found, machines, kind=Gangs) as gangs:
        assert isinstance(gangs, Gangs)
        # all machines have to be connected before one of them counts as silent
        gangs.begin_gang(nodes="2:4", lease="10s", silentAfter="10s")
        first = gangs.workers(count=6)[0]["NNIMGR_GANG_HOSTS"].split(",")
        victim = next(machine for machine in machines if machine.host == first[2])
        victim.power_off()
        second = gangs.workers(2)
        assert second[0]["NNIMGR_GANG_HOSTS"].split(",") == first[:2]
        assert {worker["GROUP_WORLD_SIZE"] for worker in second} == {"2"}
        said = eventually(lambda: gangs.trial()["reason"] or "", "the reason")
        assert victim.host in said and said.endswith("; it runs with 2 of 2 to 4 members")
        assert gangs.finish()["status"] == "SUCCEEDED"


GROWING = """
import os, select
import nni

nni.get_next_parameter()
state = nni.load_checkpoint() or {"step": 0}
leads, size = os.environ["RANK"] == "0", os.environ["GROUP_WORLD_SIZE"]
if leads:
    nni.save_checkpoint({"step": state["step"] + 1}, step=state["step"] + 1)
while size != "3":
    if leads and nni.should_checkpoint():
        nni.save_checkpoint({"step": 2}, step=2)
    select.select([], [], [], 0.05)
nni.report_final_result(float(state["step"]))
"""


def test_a_trial_gets_a_member_on_a_machine_that_is_added(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(3)]
    with field(tmp_path, found, machines, kind=Gangs) as gangs:
        assert isinstance(gangs, Gangs)
        code = tmp_path / "code"
        code.mkdir()
        (code / "trial.py").write_text(GROWING)
        service = {"platform": "remote", "machineList": [machine.entry() for machine in machines[:2]]}
        gang = {"nodes": "2:3", "growAfter": "1s"}
        gangs.create("python3 trial.py", gang=gang, trialCodeDirectory=str(code), trainingService=service)
        assert gangs.running()["reason"] == "runs with 2 of 2 to 3 members"
        added = gangs.server.call("POST", f"{gangs.url}/machines", {"machines": [machines[2].entry()]})
        assert added.status == 200, added.body
        (trial,) = gangs.done(90)
        jobs = gangs.get(f"/trials/{trial['id']}")["jobs"]
        assert [len(job["members"]) for job in jobs] == [2, 3]
        assert (trial["status"], trial["finalValue"]) == ("SUCCEEDED", 2.0)


def test_a_killed_server_loses_nothing(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(2)]
    with field(tmp_path, found, machines, kind=Gangs) as gangs:
        assert isinstance(gangs, Gangs)
        gangs.begin_gang()
        gangs.workers()
        gangs.restart()
        assert gangs.running()["attempt"] == 1
        assert all(gangs.processes_of(rank) for rank in range(4))
        trial = gangs.finish()
        assert (trial["status"], len(trial["jobs"])) == ("SUCCEEDED", 1)


def test_members_that_cannot_reach_each_other_say_so(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(2)]
    with field(tmp_path, found, machines, kind=Gangs) as gangs:
        assert isinstance(gangs, Gangs)
        service = {
            "platform": "remote",
            "machineList": [machine.entry(gangAddress="10.255.255.1") for machine in machines],
        }
        gangs.create("true", gang={"nodes": 2}, trainingService=service)
        reason = gangs.waiting_for("could not reach each other")
        assert reason.startswith("waits for 2 hosts that reach each other: ")
        assert all(f"{machine.user}@{machine.host}" in reason for machine in machines)
        (job, *_) = gangs.get(f"/trials/{gangs.trial()['id']}")["jobs"]
        assert job["cause"] == "infrastructure"
        assert "10.255.255.1 cannot reach the leader at 10.255.255.1, ports " in job["message"]
        assert "set gangAddress of that machine, or open its ports 20000 to 29999" in job["message"]


def test_another_machine_is_taken_where_two_cannot_reach_each_other(tmp_path: Path, found: Bed) -> None:
    one, two, three = machines = [found.machine() for _ in range(3)]
    one.link.refuse(two.host, "20000:29999")
    two.link.refuse(one.host, "20000:29999")
    with field(tmp_path, found, machines, kind=Gangs) as gangs:
        assert isinstance(gangs, Gangs)
        service = {"platform": "remote", "machineList": [one.entry(), two.entry()]}
        gangs.begin_gang(trainingService=service)
        gangs.waiting_for("could not reach each other")
        answer = gangs.server.call("POST", f"{gangs.url}/machines", {"machines": [three.entry()]})
        assert answer.status == 200, answer.body
        assert three.host in gangs.workers(2)[0]["NNIMGR_GANG_HOSTS"].split(",")
        trial = gangs.finish()
        assert (trial["status"], len(trial["jobs"])) == ("SUCCEEDED", 2)
