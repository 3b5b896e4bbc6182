"""The machines that other tests use: separate hosts, and what can be done to them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.e2e.scene import eventually
from tests.machines.bed import Bed, bed
from tests.machines.detour import detour
from tests.machines.machine import Account, Machine, Unable

_ALIVE = ("-o", "ConnectTimeout=1", "-o", "ServerAliveInterval=1", "-o", "ServerAliveCountMax=2")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="machines with addresses of their own need root")


@pytest.fixture(scope="module")
def found() -> Iterator[Bed]:
    with bed() as made:
        yield made


@pytest.fixture(scope="module")
def machine(found: Bed) -> Machine:
    return found.machine()


def reachable(found: Bed, machine: Machine) -> bool:
    try:
        return found.ssh(machine, "echo yes", options=_ALIVE) == "yes\n"
    except subprocess.CalledProcessError:
        return False


@as_root
def test_a_machine_is_a_host_of_its_own(found: Bed, machine: Machine) -> None:
    assert found.ssh(machine, "hostname").strip() == machine.name
    assert found.ssh(machine, "echo $HOME; pwd").split() == ["/root", "/root"]
    (machine.home / "here").write_text("seen")
    assert found.ssh(machine, "cat ~/here") == "seen"
    with pytest.raises(subprocess.CalledProcessError):
        found.ssh(machine, f"ls {Path(__file__).parents[2]}/pyproject.toml")
    assert machine.boot_id.read_text() == found.ssh(machine, "cat $NNIMGR_BOOT_ID_FILE")
    assert len(found.ssh(machine, "ls -d /proc/[0-9]*").split()) < 12


def test_a_machine_is_logged_in_to_and_counted(found: Bed) -> None:
    machine = found.machine()
    assert found.ssh(machine, "python3 -c 'print(6 * 7)'") == "42\n"
    assert (machine.logins(), machine.sessions()) == (1, 1)


@as_root
def test_a_user_without_rights_has_a_home_of_its_own(found: Bed) -> None:
    machine = found.machine(account=Account(user="ann", password="throw-away"))
    assert found.ssh(machine, "id -un; pwd").split() == ["ann", "/home/ann"]
    with pytest.raises(subprocess.CalledProcessError):
        found.ssh(machine, "touch /var/tmp/../../etc/mark")
    asked = found.client / "ask"
    asked.write_text("#!/bin/sh\necho throw-away\n")
    asked.chmod(0o700)
    said = subprocess.run(
        [
            *("ssh", "-F", str(found.config), "-o", "PreferredAuthentications=password"),
            *(f"ann@{machine.host}", "echo let in"),
        ],
        env=found.environ | {"SSH_ASKPASS": str(asked), "SSH_ASKPASS_REQUIRE": "force"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "let in\n"


@as_root
def test_addresses_of_ipv6_and_a_bastion(found: Bed, machine: Machine) -> None:
    assert machine.host6 is not None
    if os.path.exists("/proc/net/if_inet6"):
        ssh = [*found.ssh_command(machine), f"root@{machine.host6}", "hostname"]
        said = subprocess.run(ssh, env=found.environ, capture_output=True, text=True, check=True)
        assert said.stdout.strip() == machine.name
    behind = found.machine()
    behind.link.admit_only(machine.host)
    assert not reachable(found, behind)
    jump = f"ssh -F {found.config} -W %h:%p root@{machine.host}"
    assert found.ssh(behind, "hostname", options=("-o", f"ProxyCommand={jump}")).strip() == behind.name


@as_root
def test_a_link_is_cut_and_restored(found: Bed, machine: Machine) -> None:
    machine.link.cut()
    assert not reachable(found, machine)
    machine.link.restore()
    eventually(lambda: reachable(found, machine), "the restored link")


@as_root
def test_a_link_loses_packets(found: Bed, machine: Machine) -> None:
    machine.link.drop(1.0)
    assert not reachable(found, machine)
    machine.link.drop(0.2)
    machine.link.drop(0)
    assert reachable(found, machine)


@as_root
def test_a_link_is_slow(found: Bed, machine: Machine) -> None:
    machine.link.limit("512kbit")
    before = time.monotonic()
    found.ssh(machine, "head -c 128000 /dev/zero")
    slow = time.monotonic() - before
    machine.link.limit(None)
    assert slow > 1.0  # it would be 2 s at this rate
    assert reachable(found, machine)


def test_a_detour_takes_longer(found: Bed, machine: Machine) -> None:
    with detour(machine.host, machine.port, delay_s=0.2) as port:
        before = time.monotonic()
        said = subprocess.run(
            [
                *("ssh", "-F", str(found.config), "-o", f"HostKeyAlias={machine.host_keys.split()[0]}"),
                *("-p", str(port), f"{machine.user}@127.0.0.1", "echo late"),
            ],
            env=found.environ,
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout == "late\n"
        assert time.monotonic() - before > 1.2  # three round trips at least


def test_sshd_and_its_logins_are_killed_but_not_what_they_detached(found: Bed) -> None:
    machine = found.machine()
    found.ssh(machine, "setsid sleep 1000 </dev/null >/dev/null 2>&1 & sleep 0.1")
    with _session(found, machine) as session:
        machine.kill_sshd()
        session.wait(10)
    assert not reachable(found, machine)
    eventually(lambda: [each.command for each in machine.processes()] == ["sleep 1000"], "the rest")
    machine.start_sshd()
    assert reachable(found, machine)


def test_a_reboot_leaves_only_what_is_on_disk(found: Bed) -> None:
    machine = found.machine()
    found.ssh(
        machine, "touch ~/kept /tmp/machines-lost; setsid sleep 1000 </dev/null >/dev/null 2>&1 & sleep 0.1"
    )
    before = machine.boot_id.read_text()
    machine.reboot()
    assert found.ssh(machine, "cat $NNIMGR_BOOT_ID_FILE") != before
    assert found.ssh(machine, "ls ~/").split() == ["kept"]
    assert not any("sleep 1000" in process.command for process in machine.processes())


@as_root
def test_a_disk_is_filled(found: Bed) -> None:
    machine = found.machine(size="4m")
    found.disks[machine.name].fill()
    with pytest.raises(subprocess.CalledProcessError, match="1"):
        found.ssh(machine, "head -c 100000 /dev/zero > ~/more")
    found.disks[machine.name].free()
    found.ssh(machine, "head -c 100000 /dev/zero > ~/more")


def test_a_clock_jumps(found: Bed) -> None:
    try:
        machine = found.machine(clock=True)
    except Unable as error:
        pytest.skip(str(error))
    ask = "python3 -c 'import time; print(time.time(), time.monotonic())'"
    wall, steady = map(float, found.ssh(machine, ask).split())
    machine.jump(timedelta(days=3))
    later, steadily = map(float, found.ssh(machine, ask).split())
    assert later - wall > 3 * 86_400 - 10
    assert 0 < steadily - steady < 10


def test_a_revoked_key_is_no_longer_admitted(found: Bed, machine: Machine) -> None:
    machine.revoke(found.public_key())
    assert not reachable(found, machine)
    machine.authorize(found.public_key())
    assert reachable(found, machine)


_KILLED = """
import sys, time
from tests.machines.bed import bed
with bed() as found:
    machine = found.machine()
    bridge = found.network.bridge if found.network else "-"
    print(found.directory, machine.processes()[0].pid, bridge, flush=True)
    time.sleep(1000)
"""


def test_what_a_killed_run_left_is_removed_by_the_next() -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    with run:
        assert run.stdout is not None
        directory, pid, bridge = run.stdout.readline().split()
        run.send_signal(signal.SIGKILL)
    assert Path(directory).exists()
    with bed():
        assert not Path(directory).exists()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the sshd")
    assert bridge not in os.listdir("/sys/class/net")


@contextlib.contextmanager
def _session(found: Bed, machine: Machine) -> Iterator[subprocess.Popen[bytes]]:
    """A login that lasts."""
    ssh = [*found.ssh_command(machine), f"{machine.user}@{machine.host}", "echo there; exec cat"]
    with subprocess.Popen(
        ssh, env=found.environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == b"there\n"
        yield session
