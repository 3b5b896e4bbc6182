"""Members of a gang meet before any of them runs the command: with real crews on one machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from tests.trial_keeper.harness import Host, ending, text, wait_for
from trial_keeper import gang_line
from trial_keeper.gang_line import GO, LineError, Met

BESIDE = "127.0.0.1"
SHOW = "env > env.$RANK"


def member(
    here: Host, number: int, command: str, *, size: int = 2, processes: str | None = None, hosts: str = BESIDE
) -> Path:
    """Order a member of the attempt e-a-1; return its directory."""
    gang = {"job": "e-a-1", "member": number, "hosts": [hosts] * size}
    if processes is not None:
        gang["processes"] = processes
    return here.attempt(f"e-a-1.{number}" if number else "e-a-1", command, gang=gang)


def go(here: Host, number: int) -> None:
    job = f"e-a-1.{number}"
    here.server.command("update", job, {"index": 1, "parameter": ""})


def seen(here: Host, rank: int) -> dict[str, str]:
    lines = text(here.directory / f"env.{rank}").splitlines()
    return dict(line.partition("=")[::2] for line in lines)


def test_workers_of_all_members_have_common_ranks(here: Host) -> None:
    member(here, 0, SHOW, processes="2")
    member(here, 1, SHOW, processes="3")
    go(here, 1)
    for job in ("e-a-1", "e-a-1.1"):
        assert ending(here.server.ended(job)) == ("exited", 0, None)
    first = seen(here, 0)
    for rank in range(5):
        found, of = seen(here, rank), int(rank >= 2)
        assert [found[name] for name in ("RANK", "ROLE_RANK", "GROUP_RANK", "NNIMGR_GANG_RANK")] == [
            *(str(rank), str(rank), str(of), str(of))
        ]
        assert found["LOCAL_RANK"] == str(rank - 2 * of) and found["LOCAL_WORLD_SIZE"] == str(2 + of)
        assert (found["WORLD_SIZE"], found["GROUP_WORLD_SIZE"], found["NNIMGR_GANG_SIZE"]) == ("5", "2", "2")
        assert found["MASTER_ADDR"] == BESIDE and found["MASTER_PORT"] == first["MASTER_PORT"]
        assert found["NNIMGR_GANG_ENDPOINT"] == f"{BESIDE}:{first['MASTER_PORT']}"
        assert "PET_NNODES" not in found


def test_without_processes_the_command_runs_once_and_may_be_torchrun(here: Host) -> None:
    member(here, 0, SHOW)
    member(here, 1, SHOW)
    go(here, 1)
    for job in ("e-a-1", "e-a-1.1"):
        assert ending(here.server.ended(job)) == ("exited", 0, None)
    for rank in range(2):
        found = seen(here, rank)
        assert (found["RANK"], found["WORLD_SIZE"], found["LOCAL_RANK"]) == (str(rank), "2", "0")
        assert (found["PET_NNODES"], found["PET_NODE_RANK"]) == ("2", str(rank))
        assert (found["PET_RDZV_BACKEND"], found["PET_MAX_RESTARTS"]) == ("static", "0")
        assert (found["PET_MASTER_ADDR"], found["PET_MASTER_PORT"]) == (BESIDE, found["MASTER_PORT"])


def test_nothing_runs_before_all_are_told_to(here: Host) -> None:
    leader = member(here, 0, SHOW)
    other = member(here, 1, SHOW)
    wait_for(lambda: here.server.told("e-a-1").started, "the start of the leader")
    wait_for(lambda: here.server.told("e-a-1.1").started, "the start of the member")
    for job in ("e-a-1", "e-a-1.1"):
        here.server.command("stop", job, {"grace": 5.0})
        assert here.server.ended(job).final["reason"] == "stopped"  # type: ignore[index]
    assert not list(here.directory.glob("env.*")) and not (other / GO).exists() and leader.exists()


def test_a_killed_worker_is_named_with_its_rank(here: Host) -> None:
    member(here, 0, "sleep 600")
    member(here, 1, "echo $$ > pid; sleep 600")
    go(here, 1)
    wait_for(lambda: (here.directory / "pid").exists() and text(here.directory / "pid"), "the worker")
    os.kill(int(text(here.directory / "pid")), signal.SIGKILL)
    told = here.server.ended("e-a-1.1")
    assert told.final is not None and told.final["message"] == "rank 1 failed first: killed by signal 9"
    here.server.command("stop", "e-a-1", {"grace": 5.0})
    assert here.server.ended("e-a-1").final["reason"] == "stopped"  # type: ignore[index]


def test_a_leader_that_cannot_be_reached_is_named_with_both_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_line, "REACH_S", 0.2)
    with pytest.raises(LineError) as raised:
        gang_line.join("e-a-1", 1, [BESIDE, "10.0.0.6"], 1)
    first, last = gang_line.ports("e-a-1")[0], gang_line.ports("e-a-1")[-1]
    assert str(raised.value) == (
        f"10.0.0.6 cannot reach the leader at 127.0.0.1, ports {first} to {last} (nothing of the trial "
        "listens there): set gangAddress of that machine, or open its ports 20000 to 29999"
    )


def test_a_port_of_another_program_is_passed_over() -> None:
    """Another program listens on the leader's first port, and another job's leader on the second."""
    first, second, *_ = gang_line.ports("e-a-1")
    met: dict[int, Met] = {}
    with socket.create_server((BESIDE, first)), socket.create_server((BESIDE, second)) as other:
        strange = threading.Thread(target=_answer_as_another_job, args=(other,), daemon=True)
        strange.start()
        hosts = [BESIDE] * 3
        jobs = [
            threading.Thread(target=lambda: met.setdefault(0, gang_line.lead("e-a-1", hosts, 1))),
            threading.Thread(target=lambda: met.setdefault(1, gang_line.join("e-a-1", 1, hosts, 2))),
            threading.Thread(target=lambda: met.setdefault(2, gang_line.join("e-a-1", 2, hosts, 4))),
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join(30)
    assert {each.counts == [1, 2, 4] for each in met.values()} == {True} and len(met) == 3
    assert len({each.port for each in met.values()}) == 1


def _answer_as_another_job(listener: socket.socket) -> None:
    for _ in range(2):
        peer, _ = listener.accept()
        peer.recv(4096)
        peer.sendall(json.dumps({"job": "e-b-1"}).encode() + b"\n")
        peer.close()
