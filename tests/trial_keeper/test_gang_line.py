"""Members of a gang meet before any of them runs the command: with real crews on one machine."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.trial_keeper.harness import Host, ending, oldest_python, text, wait_for
from tests.trial_keeper.harness import host as make_host
from trial_keeper.gang_line import GO

BESIDE = "127.0.0.1"
KEY = "1f" * 32
SHOW = "env > env.$RANK"


def member(
    here: Host,
    number: int,
    command: str,
    *,
    size: int = 2,
    processes: str | None = None,
    hosts: str = BESIDE,
    **changes: Any,
) -> Path:
    """Order a member of the attempt e-a-1; return its directory."""
    gang = {"job": "e-a-1", "member": number, "hosts": [hosts] * size, "key": KEY}
    if processes is not None:
        gang["processes"] = processes
    return here.attempt(f"e-a-1.{number}" if number else "e-a-1", command, gang=gang, **changes)


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


@pytest.mark.skipif(oldest_python() is None, reason="no Python 3.8 here")
def test_members_meet_with_the_oldest_python(tmp_path: Path) -> None:
    with make_host(tmp_path, python=str(oldest_python())) as here:
        member(here, 0, SHOW)
        member(here, 1, SHOW)
        go(here, 1)
        for job in ("e-a-1", "e-a-1.1"):
            assert ending(here.server.ended(job)) == ("exited", 0, None)


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


def test_the_key_is_in_a_file_that_only_its_owner_can_read(here: Host) -> None:
    directory = member(here, 0, SHOW)
    wait_for(lambda: here.server.told("e-a-1").started, "the start of the leader")
    (path,) = (here.keeper / "line-keys").iterdir()
    assert text(path) == KEY
    for each in (path, here.keeper / "journal"):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    for pid in here.processes():
        with contextlib.suppress(OSError):  # it has just ended
            process = Path(f"/proc/{pid}")
            shown = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            assert KEY.encode() not in shown
    for each in directory.rglob("*"):
        assert each.is_dir() or KEY.encode() not in each.read_bytes()
    here.server.command("stop", "e-a-1", {"grace": 5.0})
    here.server.ended("e-a-1")
    wait_for(lambda: not path.exists(), "the removal of the key")


@pytest.mark.parametrize(("processes", "gpus", "slots"), [(None, "", 1), (None, "0,3", 2), ("3", "0,3", 3)])
def test_a_hostfile_has_all_members(here: Host, processes: str | None, gpus: str, slots: int) -> None:
    command = 'cp "$NNIMGR_GANG_HOSTFILE" hosts.$RANK'
    for number in range(2):
        environment = {"NNI_PLATFORM": "local", "CUDA_VISIBLE_DEVICES": gpus}
        member(here, number, command, processes=processes, environment=environment)
    go(here, 1)
    for job in ("e-a-1", "e-a-1.1"):
        assert ending(here.server.ended(job)) == ("exited", 0, None)
    assert (
        text(here.directory / "hosts.0")
        == text(here.directory / "hosts.1")
        == 2 * f"{BESIDE} slots={slots}\n"
    )


def test_the_command_does_not_get_the_key(here: Host) -> None:
    member(here, 0, SHOW)
    member(here, 1, SHOW)
    go(here, 1)
    for job in ("e-a-1", "e-a-1.1"):
        assert ending(here.server.ended(job)) == ("exited", 0, None)
    for rank in range(2):
        assert KEY not in text(here.directory / f"env.{rank}") and "line-keys" not in str(seen(here, rank))
    assert KEY not in here.log()


def test_members_with_another_key_do_not_meet(here: Host) -> None:
    member(here, 0, SHOW)
    here.attempt("e-a-1.1", SHOW, gang={"job": "e-a-1", "member": 1, "hosts": [BESIDE] * 2, "key": "00"})
    go(here, 1)
    told = here.server.ended("e-a-1.1")
    assert told.final is not None and "cannot reach the leader" in told.final["message"]
    assert (told.final["cause"], told.final["unreached"]) == ("infrastructure", True)
    here.server.command("stop", "e-a-1", {"grace": 5.0})
    assert here.server.ended("e-a-1").final["reason"] == "stopped"  # type: ignore[index]
    assert not list(here.directory.glob("env.*"))


def test_an_order_without_a_key_says_so(here: Host) -> None:
    here.attempt("e-a-1", SHOW, gang={"job": "e-a-1", "member": 0, "hosts": [BESIDE] * 2})
    told = here.server.ended("e-a-1")
    assert told.final is not None and told.final["message"] == (
        "gang: the server that has started this trial is too old: it gives its members no key"
    )
    assert "unreached" not in told.final
