"""``nnictl doctor`` on machines that are well, and on machines that are not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.machines.bed import Bed, bed
from tests.machines.machine import Account, Machine


class Office:
    """A configuration, and what the doctor says of it."""

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self.directory = directory
        self.environ = {**environ, "NNIMGR_HOME": str(directory / "home")}
        (directory / "code").mkdir()
        (directory / "code" / "trial.py").write_text("print(1)")

    def ask(self, service: dict[str, Any], *options: str, **more: Any) -> tuple[int, str]:
        """Exit code and standard output."""
        path = self.directory / "exp.json"
        config = {
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "trialCommand": "python3 trial.py",
            "trialCodeDirectory": str(self.directory / "code"),
            "trialConcurrency": 1,
            "goal": "maximize",
            "tuner": {"name": "Random"},
            "trainingService": service,
        }
        path.write_text(json.dumps(config | more))
        command = [sys.executable, "-m", "nnimgr.cli.main", "doctor", "--config", str(path), *options]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout


@pytest.fixture
def found() -> Iterator[Bed]:
    with bed() as made:
        yield made


@pytest.fixture
def office(tmp_path: Path, found: Bed) -> Office:
    return Office(tmp_path, found.environ)


def remote(machines: list[Machine], **more: Any) -> dict[str, Any]:
    return {"platform": "remote", "machineList": [machine.entry() for machine in machines], **more}


def test_this_machine(office: Office) -> None:
    code, said = office.ask({"platform": "local"})
    assert code == 0
    assert "ok      this machine: trial: a trial of nnimgr's own (not trialCommand) ran" in said
    assert said.endswith("No errors found.\n")
    left = [path.name for path in office.directory.glob("home/*") if path.name != ".nnimgr"]
    assert left == []


def test_a_machine_that_is_well_and_is_left_as_it_was(office: Office, found: Bed) -> None:
    machine = found.machine()
    code, said = office.ask(remote([machine]), "--json")
    assert code == 0
    findings = json.loads(said)
    assert [finding["check"] for finding in findings if finding["machine"] != "all machines"] == [
        *("connection", "Python", "writing", "disk", "GPUs", "clock", "trial")
    ]
    assert {finding["level"] for finding in findings} == {"ok"}
    assert (machine.logins(), machine.sessions()) == (1, 1)
    top = machine.home / "nni-experiments"
    assert [path.name for path in top.iterdir()] == [".nnimgr"]  # its program and the code: for the next one
    assert not any("trial-keeper" in process.command for process in machine.processes())


def test_machines_that_are_not_well(office: Office, found: Bed, tmp_path: Path) -> None:
    if found.network is None:
        pytest.skip("machines of such kinds need root")
    shell = found.directory / "bin"
    shell.mkdir()
    (shell / "sh").symlink_to("/bin/sh")
    ann = found.machine(account=Account(user="ann"))
    full, late = found.machine(size="16m"), found.machine(clock=True)
    bare, gone, off = found.machine(environ={"PATH": str(shell)}), found.machine(), found.machine()
    foreign, stranger = found.machine(), found.machine()
    late.jump(timedelta(days=3))
    found.disks[full.name].fill()
    gone.link.cut()
    off.kill_sshd()
    foreign.revoke(found.public_key())
    kept = found.known_hosts.read_text()
    found.known_hosts.write_text(kept.replace(stranger.host_keys, ""))
    code, said = office.ask(remote([ann, full, late, bare, gone, off, foreign, stranger]))
    assert code == 1

    def line(machine: Machine, check: str) -> str:
        start = f"{machine.user}@{machine.host}: {check}: "
        (found_line,) = [line for line in said.splitlines() if start in line]
        return found_line

    assert line(ann, "trial").startswith("ok ")
    assert line(late, "clock").startswith("warning ") and "3 days ahead" in line(late, "clock")
    assert line(late, "trial").startswith("ok ")
    for machine, part in (
        (full, "No space left on device"),
        (bare, "has no Python 3.8 or newer"),
        (gone, "No route to host"),
        (off, "nothing listens on port 22"),
        (foreign, "rejects the login"),
        (stranger, 'accept it with "ssh-keyscan'),
    ):
        assert line(machine, "connection").startswith("FAULT ")
        assert part in line(machine, "connection")
    assert said.splitlines()[-1].startswith("6 errors: ")


def test_gpus_and_a_home_that_cannot_be_written_to(office: Office, found: Bed) -> None:
    machine = found.machine()
    code, said = office.ask(remote([machine]), trialGpuNumber=2)
    assert code == 1
    assert ": GPUs: a trial needs 2 GPUs, but the GPUs cannot be read" in said
    assert ": trial: a trial of nnimgr's own (not trialCommand) ran" in said
    if found.network is not None:
        ann = found.machine(account=Account(user="ann"))
        (ann.home / "nni-experiments").mkdir()  # by root
        code, said = office.ask(remote([ann]))
        assert code == 1
        assert "/home/ann/nni-experiments/.nnimgr: Permission denied" in said


def test_machines_that_cannot_reach_each_other(office: Office, found: Bed) -> None:
    if found.network is None:
        pytest.skip("firewalls of machines need root")
    one, two, three = (found.machine() for _ in range(3))
    code, said = office.ask(remote([one, two, three]), gang={"nodes": 2})
    assert code == 0
    assert "all machines: other machines: all 3 machines that were reached can connect to each other" in said
    two.link.refuse(one.host, "20000:29999")
    service = {
        "platform": "remote",
        "machineList": [one.entry(), two.entry(), three.entry(gangAddress=one.host)],
    }
    code, said = office.ask(service, "--json", gang={"nodes": 2})
    assert code == 1
    assert one.logins() == 2  # the check of the pairs uses the connection of the machine's own check
    found_pairs = [
        (each["machine"], each["sentence"])
        for each in json.loads(said)
        if each["check"] == "other machines" and each["level"] == "FAULT"
    ]
    names = [f"{machine.user}@{machine.host}" for machine in (one, two, three)]
    assert [machine for machine, _ in found_pairs] == [names[0], names[0], names[1]]
    assert found_pairs[0][1].startswith(f"cannot reach {names[1]} at {two.host}, port 2")
    assert found_pairs[0][1].endswith(
        "(Connection refused): open ports 20000 to 29999 of that machine, or set its gangAddress"
    )
    for _, sentence in found_pairs[1:]:  # a wrong address
        assert sentence.startswith(f"cannot reach {names[2]} at {one.host}, port 2")
