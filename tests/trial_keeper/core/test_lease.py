"""Tests of the lease: how the keeper extends it, and how it ends shims (real processes)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trial_keeper import harness
from tests.trial_keeper.core.rig import Rig, start
from tests.trial_keeper.harness import Host, wait_for
from trial_keeper.actions import lease_file
from trial_keeper.actions.loop import now
from trial_keeper.core.effects import Channel, Extend
from trial_keeper.machine import procs


@pytest.fixture
def rig() -> Rig:
    return Rig()


# ---- the keeper's side ------------------------------------------------------------------------------------


def test_a_lease_runs_from_the_sending_of_a_request(rig: Rig) -> None:
    rig.now = 5.0
    rig.answer(lease_s=30)
    assert rig.lease == (1, 30.0)  # the inventory was sent at 0
    rig.now = 12.0
    rig.answer(Channel.WAIT, lease_s=30)  # sent at 5
    assert rig.lease == (1, 35.0)


def test_an_answer_moves_the_end_only_when_that_is_worth_a_write(rig: Rig) -> None:
    rig.greet(lease_s=100)
    for rig.now in (1.0, 2.0, 3.0, 4.0):
        rig.answer(Channel.WAIT, lease_s=100)
    assert rig.lease == (1, 100.0)
    for rig.now in (9.0, 10.0):
        rig.answer(Channel.WAIT, lease_s=100)
    assert rig.lease == (1, 109.0)


def test_without_a_lease_nothing_is_written(rig: Rig) -> None:
    rig.greet()
    rig.order(start(1, "a"))
    assert rig.lease == (0, 0.0) and rig.leases == [None]


def test_an_answer_after_the_end_is_not_obeyed_before_all_that_is_held_was_named(rig: Rig) -> None:
    rig.greet(lease_s=10)
    rig.order(start(1, "a", lease=True))
    assert rig.leases == [1]
    rig.now = 10.0
    rig.answer(Channel.WAIT, lease_s=10, cmds=[start(2, "b", lease=True)])
    assert rig.spawned == ["a"] and rig.lease == (1, 10.0)
    rig.wait(1.0)
    assert rig.call()["all"] and list(rig.call()["attempts"]) == ["a"]
    rig.answer(kill=["a"], lease_s=10, cmds=[start(2, "b", lease=True)])
    assert rig.claims["a"].pid is None  # aborted
    assert rig.lease[0] == 2 and rig.leases == [1, 2]


def test_an_inventory_from_before_the_end_does_not_do(rig: Rig) -> None:
    rig.greet(lease_s=10)
    rig.start()  # another keeper: its inventory call is in progress
    rig.now = 11.0
    rig.answer(lease_s=10)
    assert rig.lease == (1, 10.0)
    rig.wait(1.0)
    rig.answer(lease_s=10)
    assert rig.lease[0] == 2 and rig.lease[1] > 20.0


def test_what_could_not_begin_without_a_lease_begins_with_the_next(rig: Rig) -> None:
    rig.greet(lease_s=10)
    rig.answer(Channel.WAIT, lease_s=10, cmds=[start(1, "a", lease=True)])
    rig.now = 12.0
    rig.run(rig.core.shim_failed(rig.now, "a", "the lease has elapsed"))
    rig.answer(lease_s=10)  # not in the answer to an inventory
    rig.wait(1.0)
    assert rig.call()["all"] and set(rig.leases) == {1}
    rig.answer(lease_s=10)
    assert rig.leases[-1] == 2


def test_a_lease_that_cannot_be_written_is_said(rig: Rig) -> None:
    rig.greet(lease_s=10)
    rig.now = 5.0
    rig.answer(Channel.WAIT, lease_s=10)
    rig.disk_full = True
    rig.answer(Channel.WAIT, lease_s=10)
    assert rig.call()["status"] == "read-only file system"
    rig.disk_full = False
    rig.answer(lease_s=10)
    assert rig.lease == (1, 15.0) and rig.core.status is None


# ---- its files --------------------------------------------------------------------------------------------


def test_the_file_says_until_when(tmp_path: Path) -> None:
    directory = str(tmp_path)
    assert lease_file.find(directory, "boot") == (0, 0.0)
    lease_file.write(directory, Extend(1, 100.0, 0.0), "boot")
    lease_file.write(directory, Extend(1, 120.0, 100.0), "boot")
    assert lease_file.find(directory, "boot") == (1, 120.0)
    assert lease_file.find(directory, "another boot") == (1, 0.0)
    lease_file.write(directory, Extend(2, 130.0, 120.0), "boot")
    assert lease_file.find(directory, "boot") == (2, 130.0) and os.listdir(directory) == ["lease-2"]


# ---- the shim's -------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with harness.host(tmp_path) as found:
        yield found


def test_a_trial_goes_on_while_the_server_answers(host: Host) -> None:
    host.server.lease_s = 2.0
    os.mkfifo(host.directory / "gate")
    host.attempt("a", "read -r word < gate", lease=True)
    wait_for(lambda: host.server.told("a").started, "the start")
    answered = len(host.server.calls)
    wait_for(lambda: len(host.server.calls) > answered + 8, "calls over more than two leases")
    (host.directory / "gate").write_text("go\n")
    final = host.server.ended("a").final
    assert final is not None and (final["reason"], final["code"]) == ("exited", 0)


@pytest.mark.parametrize("killed", [False, True])
def test_a_trial_cut_off_from_the_server_is_ended_by_its_shim(host: Host, killed: bool) -> None:
    host.server.lease_s = 2.0
    host.attempt("a", "trap '' TERM; setsid sleep 1000 & sleep 1000", lease=True)
    wait_for(lambda: host.server.told("a").started, "the start")
    host.server.cut = True
    if killed:
        host.kill()
    mark = ["NNIMGR_JOB_ID", "a"]
    wait_for(lambda: not procs.marked(*mark), "the end of all that it had started")
    host.server.cut = False
    if killed:
        host.start()
    final = host.server.ended("a").final
    assert final is not None and (final["reason"], final["signal"]) == ("lease", signal.SIGKILL)


def test_nothing_begins_once_the_lease_is_over(host: Host) -> None:
    host.server.lease_s = 2.0
    wait_for(lambda: (host.keeper / "lease-1").exists(), "the lease")
    host.server.cut = True
    wait_for(lambda: lease_file.find(str(host.keeper), "boot-1")[1] <= now(), "its end")
    host.server.cut = False
    directory = host.attempt("a", "touch ran", lease=True)
    host.server.ended("a")
    assert (host.directory / "ran").exists() and (host.keeper / "lease-2").exists()
    assert directory.exists() and not (host.keeper / "lease-1").exists()
