"""Machines that are mistreated in the middle of an experiment: nothing is lost, nothing runs twice."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.e2e.remote import CUT_S, Field, field
from tests.e2e.scene import eventually
from tests.machines.bed import Bed, bed
from tests.machines.detour import detour
from tests.machines.machine import Account, Machine, Unable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="cables, disks and accounts of machines need root")


@pytest.fixture
def found() -> Iterator[Bed]:
    with bed() as made:
        yield made


@contextlib.contextmanager
def three(directory: Path, found: Bed) -> Iterator[Field]:
    """An experiment on three machines; all of them have trials that run."""
    machines = [found.machine() for _ in range(3)]
    with field(directory, found, machines) as remote:
        remote.begin_on_all()
        yield remote


def status_of(remote: Field, job: str) -> str:
    """Of the trial of this job."""
    trial_id = job.split("-")[1]
    return str(next(trial["status"] for trial in remote.trials() if trial["id"] == trial_id))


def test_trials_run_on_all_machines_over_one_connection_each(tmp_path: Path, found: Bed) -> None:
    with three(tmp_path, found) as remote:
        remote.compare()
        assert [(machine.logins(), machine.sessions()) for machine in remote.machines] == [(1, 1)] * 3


@as_root
def test_a_link_that_is_cut_and_comes_back(tmp_path: Path, found: Bed) -> None:
    with three(tmp_path, found) as remote:
        victim = remote.machines[0]
        running = remote.await_running(victim)
        victim.link.cut()
        until = time.monotonic() + CUT_S
        eventually(lambda: status_of(remote, running[0]) == "UNKNOWN", "UNKNOWN")
        assert remote.running_on(victim) or all(remote.attempts()[job].ended for job in running)
        said = remote.saying(victim.host)
        eventually(lambda: time.monotonic() >= until, "the end of the cut", CUT_S + 5)
        victim.link.restore()
        remote.compare()
        assert said


@as_root
def test_all_links_are_cut_at_once(tmp_path: Path, found: Bed) -> None:
    with three(tmp_path, found) as remote:
        for machine in remote.machines:
            machine.link.cut()
        remote.saying(remote.machines[2].host)
        for machine in remote.machines:
            machine.link.restore()
        remote.compare()


@as_root
@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda machine: machine.link.drop(0.2), id="packets lost"),
        pytest.param(lambda machine: machine.link.limit("256kbit"), id="slow"),
    ],
)
def test_a_bad_link(tmp_path: Path, found: Bed, harm: Callable[[Machine], None]) -> None:
    with three(tmp_path, found) as remote:
        for machine in remote.machines[:2]:
            harm(machine)
        remote.compare()
        for machine in remote.machines[:2]:
            machine.link.drop(0)
            with contextlib.suppress(RuntimeError):
                machine.link.limit(None)


@as_root
def test_a_machine_that_is_far_away(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine() for _ in range(2)]
    with detour(machines[0].host, machines[0].port, delay_s=0.2) as port:
        with open(found.known_hosts, "a") as file:
            key = " ".join(machines[0].host_keys.split()[1:3])
            file.write(f"[127.0.0.1]:{port} {key}\n")
        with field(tmp_path, found, machines) as remote:
            entries = [machines[0].entry(host="127.0.0.1", port=port), machines[1].entry()]
            machines[1].link.cut()  # or it might run all of them before the other one is there
            remote.begin(service={"machineList": entries}, trials=30)
            remote.await_running(machines[0])
            machines[1].link.restore()
            remote.compare(trials=30)
            assert {each.machine for each in remote.attempts().values()} == set(machines)


def test_sshd_is_killed_and_comes_back(tmp_path: Path, found: Bed) -> None:
    with three(tmp_path, found) as remote:
        victim = remote.machines[0]
        victim.kill_sshd()
        remote.saying(victim.host)
        victim.start_sshd()
        remote.compare()


@pytest.mark.parametrize("killed", [False, True], ids=["", "server killed"])
def test_what_a_stop_leaves_on_a_silent_machine_ends_when_that_is_heard(
    tmp_path: Path, found: Bed, killed: bool
) -> None:
    machines = [found.machine()]
    with field(tmp_path, found, machines, "--until-idle") as remote:
        remote.begin(trials=1, seconds=(200, 200))
        (running,) = remote.await_running(machines[0])
        machines[0].kill_sshd()
        eventually(lambda: status_of(remote, running) == "UNKNOWN", "UNKNOWN")
        assert remote.nnictl("stop", "exp")
        if killed:
            remote.restart()
        server = remote.server.process
        assert server.poll() is None
        machines[0].start_sshd()
        eventually(lambda: server.poll() is not None, "the end of the server", 40)
        assert server.returncode == 0
        # On a slow machine its keeper does not wait to see the end of what it has signalled.
        eventually(
            lambda: not any(each.command.endswith("trial.py") for each in machines[0].processes()),
            "the end of the trial",
            15,
        )


def test_keepers_are_killed(tmp_path: Path, found: Bed) -> None:
    with three(tmp_path, found) as remote:
        for machine in remote.machines:
            assert machine.kill_keepers() == 1
        remote.compare()


@as_root
def test_the_server_is_killed_while_a_link_is_cut(tmp_path: Path, found: Bed) -> None:
    with three(tmp_path, found) as remote:
        remote.machines[0].link.cut()
        remote.restart()
        eventually(lambda: "UNKNOWN" in {trial["status"] for trial in remote.trials()}, "UNKNOWN")
        remote.machines[0].link.restore()
        remote.compare()


def test_a_machine_reboots(tmp_path: Path, found: Bed) -> None:
    with three(tmp_path, found) as remote:
        victim = remote.machines[0]
        running = remote.await_running(victim)
        victim.reboot()
        remote.compare(lost=None)
        lost = dict(remote.rows("SELECT job_id, keeper_id FROM jobs WHERE end_reason <> 'exited'"))
        assert lost.keys() >= set(running)  # others may have been placed and not begun
        assert len(set(lost.values())) == 1
        again = remote.rows("SELECT job_id FROM jobs WHERE attempt > 1")
        assert sorted(job[:-2] for (job,) in again) == sorted(job[:-2] for job in lost)


@as_root
def test_a_disk_is_full_for_a_while(tmp_path: Path, found: Bed) -> None:
    machines = [found.machine(size="16m"), found.machine()]
    with field(tmp_path, found, machines) as remote:
        remote.begin(trials=20, concurrency=2, seconds=(3, 4))
        remote.await_running(machines[0])
        found.disks[machines[0].name].fill()
        remote.nnictl("update", "concurrency", "exp", "--value", "8")
        why = "the attempt waits for its code: No space left on device"
        eventually(lambda: why in [trial["note"] for trial in remote.trials()], why)
        found.disks[machines[0].name].free()
        remote.compare(trials=20)


@as_root
@pytest.mark.parametrize("days", [3, -3])
def test_a_clock_jumps(tmp_path: Path, found: Bed, days: int) -> None:
    try:
        machines = [found.machine(clock=True), found.machine()]
    except Unable as error:
        pytest.skip(str(error))
    with field(tmp_path, found, machines) as remote:
        machines[1].link.cut()  # else it may have run all trials before the other, which is slower, is there
        remote.begin()
        remote.await_running(machines[0])
        machines[1].link.restore()
        machines[0].jump(timedelta(days=days))
        remote.compare()


def test_a_key_is_revoked(tmp_path: Path, found: Bed) -> None:
    with three(tmp_path, found) as remote:
        victim = remote.machines[0]
        victim.revoke(found.public_key())
        victim.kill_sshd()
        victim.start_sshd()
        said = remote.saying("rejects the login")
        assert victim.host in said
        victim.authorize(found.public_key())
        remote.compare()


@as_root
def test_a_user_without_rights_and_a_machine_behind_another(tmp_path: Path, found: Bed) -> None:
    bastion, ann = found.machine(), found.machine(account=Account(user="ann", password="throw-away"))
    ann.revoke(found.public_key())
    hidden = found.machine()
    hidden.link.admit_only(bastion.host)
    with field(tmp_path, found, [ann, hidden]) as remote:
        entries = [
            ann.entry(password="throw-away"),
            hidden.entry(proxyJump=f"{bastion.user}@{bastion.host}"),
        ]
        remote.begin_on_all(service={"machineList": entries})
        bastion.kill_sshd()
        ann.link.cut()
        remote.saying(ann.host)
        bastion.start_sshd()
        ann.link.restore()
        remote.compare()
