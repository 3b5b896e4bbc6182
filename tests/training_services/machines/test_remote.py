"""Tests of the remote platform with real OpenSSH servers, keepers, shims and trials."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nnimgr.server.doors import Doors
from tests.processes import kill
from tests.sshd import NEEDS_SSHD, Machine, Site, make_key, site
from tests.training_services.machines.local_platform import PRELUDE, SCRIPTS
from training_services.base import (
    EndReason,
    ExperimentContext,
    JobEnded,
    JobPlaced,
    JobStarted,
    JobWaiting,
    KeeperBound,
    ServiceUnavailable,
)
from training_services.keepers.host import attempt_folder
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import KeeperHub
from training_services.machines.remote import MachineConfig, RemoteConfig, RemoteService
from training_services.placement.ledger import HostLedger
from training_services.testing import Behaviour, ContractPlatform, CoreDouble, TrainingServiceContract
from training_services.tools import ServiceTools

pytestmark = pytest.mark.skipif(NEEDS_SSHD, reason="there is no sshd")


class RemotePlatform(ContractPlatform):
    def __init__(self, directory: Path, hosts: Site) -> None:
        self.directory = directory
        self.site = hosts
        self.code = directory / "code"
        self.code.mkdir()
        (self.code / "data.txt").write_text("from the code\n")
        self.scripts = directory / "scripts"
        self.scripts.mkdir()
        hub = KeeperHub()
        self.doors = Doors(KeeperDoor(hub), folder=directory, name="test")
        self.tools = ServiceTools(hub=hub, ledger=HostLedger(), doors=self.doors)
        self.settings: dict[str, object] = {}
        self.fields: dict[str, object] = {}  # fields of each machine
        self.manager_ip: str | None = None
        self.experiment = "contract"

    def config(self, machine: Machine, **fields: object) -> MachineConfig:
        given = {
            "host": machine.address,
            "port": machine.port,
            "user": self.site.user,
            **self.fields,
            **fields,
        }
        return MachineConfig.model_validate(given)

    def make(self) -> RemoteService:
        machines = [self.config(machine) for machine in self.site.machines]
        context = ExperimentContext(
            experiment_id=self.experiment,
            directory=self.directory / self.experiment,
            trial_command=f". {self.scripts}/$NNI_TRIAL_JOB_ID.sh",
            trial_code_directory=self.code,
            trial_gpu_number=None,
            python=sys.executable,
            environ={},
            nni_manager_ip=self.manager_ip,
        )
        config = RemoteConfig.model_validate({"machine_list": machines, **self.settings})
        return RemoteService(context, config, self.tools)

    def title(self, machine: Machine) -> str:
        """Return the name of the machine in sentences."""
        return self.config(machine).title

    def urls(self, machine: Machine) -> list[str]:
        """Return the addresses at which the machine's keeper calls."""
        path = self.directory / self.experiment / "keepers" / self.config(machine).keeper_id / "manager.json"
        return list(json.loads(path.read_text())["urls"])

    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        gate = '"$NNI_TRIAL_JOB_ID.gate"'
        self.script(trial_id, SCRIPTS[behaviour].replace(gate, f'"{self.scripts}/"{gate}'))

    def script(self, trial_id: str, body: str) -> None:
        (self.scripts / f"{trial_id}.sh").write_text(PRELUDE + body)
        os.mkfifo(self.scripts / f"{trial_id}.gate")

    def release(self, trial_id: str) -> None:
        (self.scripts / f"{trial_id}.gate").write_text("go\n")

    def processes(self, trial_id: str) -> int:
        mark = f"NNI_SYS_DIR={self.site.directory}/".encode()
        count = 0
        for process in Path("/proc").glob("[0-9]*/environ"):
            try:
                found = process.read_bytes().split(b"\0")
            except OSError:
                continue
            count += any(v.startswith(mark) and v.endswith(f"/{trial_id}".encode()) for v in found)
        return count


@pytest.fixture
async def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RemotePlatform]:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with site(tmp_path) as hosts:
        monkeypatch.setenv("HOME", str(hosts.home))
        hosts.machine()
        made = RemotePlatform(tmp_path, hosts)
        yield made
        made.tools.hub.close()
        await made.doors.close()


class TestRemoteService(TrainingServiceContract):
    """Contract of all training services, with ``platform`` from above."""


async def started(core: CoreDouble, platform: RemotePlatform, trial: str, behaviour: Behaviour) -> str:
    """Submit a trial, wait until it runs, and return its job id."""
    platform.behave(trial, behaviour)
    job_id = core.submit(trial)
    await core.seen(JobStarted, job_id)
    return job_id


async def ends_well(core: CoreDouble, platform: RemotePlatform, job_id: str, trial: str) -> None:
    """Let the trial end, and check that it ran once and that each metric came once."""
    platform.release(trial)
    end = await core.seen(JobEnded, job_id)
    assert (end.reason, end.exit_code, end.metrics) == (EndReason.EXITED, 0, 3)
    assert [metric.position for metric in core.metrics(job_id)] == [0, 1, 2]
    assert sum(isinstance(fact, JobStarted) for fact in core.of(job_id)) == 1


async def noticed(core: CoreDouble, text: str) -> str:
    """Wait for the notice with this text, and return it."""
    async with asyncio.timeout(20):
        while True:
            assert core.service is not None
            for notice in core.service.notices().values():
                if text in notice:
                    return notice
            await asyncio.sleep(0.02)


async def gone(machine: Machine) -> None:
    """Wait until no process of a keeper is left on the machine."""
    async with asyncio.timeout(5):
        while True:
            if not machine.keeper_processes():
                return
            await asyncio.sleep(0.02)


async def test_one_connection_and_one_session_serve_two_experiments(platform: RemotePlatform) -> None:
    cores = [CoreDouble(), CoreDouble()]
    for core, name in zip(cores, ("contract", "second"), strict=True):
        platform.experiment = name
        await core.open(platform.make())
    jobs = [
        await started(core, platform, trial, Behaviour.REPORTS_LATER)
        for core, trial in zip(cores, ("aaaa1", "bbbb2"), strict=True)
    ]
    machine = platform.site.machines[0]
    assert len(machine.connections()) == 1  # one is enough: its MaxSessions is 1
    assert len(platform.tools.machines) == 1
    await ends_well(cores[0], platform, jobs[0], "aaaa1")
    await cores[0].close(detach=False)
    await ends_well(cores[1], platform, jobs[1], "bbbb2")
    await cores[1].close(detach=False)
    assert len(platform.tools.machines) == 0
    await gone(machine)
    assert len(list(machine.home.glob("nni-experiments/.nnimgr/keeper/*.pyz"))) == 1


@pytest.mark.parametrize("victim", ["attendant", "connection", "keeper"])
async def test_a_trial_runs_on_whatever_is_killed(platform: RemotePlatform, victim: str) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    job_id = await started(core, platform, "aaaa1", Behaviour.REPORTS_LATER)
    machine = platform.site.machines[0]
    pids = {"attendant": machine.attendants, "connection": machine.connections, "keeper": machine.keepers}
    kill(*pids[victim]())
    await ends_well(core, platform, job_id, "aaaa1")
    second = await started(core, platform, "bbbb2", Behaviour.REPORTS_LATER)
    await ends_well(core, platform, second, "bbbb2")
    await core.close(detach=False)
    await gone(machine)


async def test_results_come_when_the_machine_is_back(platform: RemotePlatform) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    job_id = await started(core, platform, "aaaa1", Behaviour.REPORTS_LATER)
    machine = platform.site.machines[0]
    urls = platform.urls(machine)
    machine.stop()
    await noticed(core, "nothing listens on port")
    platform.release("aaaa1")
    waiting = core.submit("bbbb2")
    platform.behave("bbbb2", Behaviour.REPORTS)
    assert (
        f"waits for a connection to {platform.title(machine)} ("
        in (await core.seen(JobWaiting, waiting)).reason
    )
    machine.start()
    end = await core.seen(JobEnded, job_id)
    assert (end.exit_code, end.metrics) == (0, 3)
    await core.seen(JobEnded, waiting)
    assert platform.urls(machine) == urls  # the tunnel has the same port again
    await core.close(detach=False)


async def test_a_frozen_machine_is_noticed_and_comes_back(platform: RemotePlatform) -> None:
    platform.settings["keep_alive_interval"] = 1
    core = CoreDouble()
    await core.open(platform.make())
    job_id = await started(core, platform, "aaaa1", Behaviour.REPORTS_LATER)
    machine = platform.site.machines[0]
    (connection,) = machine.connections()
    os.kill(connection, signal.SIGSTOP)
    try:
        await noticed(core, "has not answered for 3 s: connection given up")
    finally:
        os.kill(connection, signal.SIGKILL)
    await ends_well(core, platform, job_id, "aaaa1")
    await core.close(detach=False)


async def test_a_keeper_is_ended_over_another_connection_if_the_first_breaks(
    platform: RemotePlatform,
) -> None:
    platform.settings["keep_alive_interval"] = 1
    core = CoreDouble()
    await core.open(platform.make())
    job_id = await started(core, platform, "aaaa1", Behaviour.REPORTS_LATER)
    await ends_well(core, platform, job_id, "aaaa1")
    machine = platform.site.machines[0]
    (connection,) = machine.connections()
    os.kill(connection, signal.SIGSTOP)
    try:
        service, core.service = core.service, None
        assert service is not None
        assert await service.close(detach=False) == []
    finally:
        os.kill(connection, signal.SIGKILL)
    await core.close(detach=False)
    await gone(machine)


async def test_a_machine_that_was_never_reached_has_nothing_left(platform: RemotePlatform) -> None:
    reached, never = platform.site.machines[0], platform.site.machine()
    never.stop()
    core = CoreDouble()
    await core.open(platform.make())
    job_id = await started(core, platform, "aaaa1", Behaviour.REPORTS_LATER)
    await noticed(core, "nothing listens on port")
    await ends_well(core, platform, job_id, "aaaa1")
    reached.stop()
    service, core.service = core.service, None
    assert service is not None
    (sentence,) = await service.close(detach=False)
    assert platform.title(reached) in sentence
    await core.close(detach=False)


async def test_a_machine_that_cannot_be_reached_stops_nobody(platform: RemotePlatform) -> None:
    second = platform.site.machine()
    second.stop()
    core = CoreDouble()
    await core.open(platform.make())
    jobs = [await started(core, platform, trial, Behaviour.REPORTS_LATER) for trial in ("aaaa1", "bbbb2")]
    notice = await noticed(core, "nothing listens on port")
    assert notice.startswith(f"there is no connection to {platform.title(second)}: ")
    second.start()
    await core.until(
        lambda: any(
            isinstance(fact, KeeperBound) and fact.keeper_id.endswith(str(second.port)) for fact in core.facts
        )
    )
    third = await started(core, platform, "cccc3", Behaviour.REPORTS_LATER)
    assert (await core.seen(JobPlaced, third)).place.keeper_id.endswith(str(second.port))
    for job_id, trial in zip([*jobs, third], ("aaaa1", "bbbb2", "cccc3"), strict=True):
        await ends_well(core, platform, job_id, trial)
    await core.close(detach=False)


async def test_an_unknown_machine_is_refused_and_a_changed_one_more_so(platform: RemotePlatform) -> None:
    machine = platform.site.machines[0]
    platform.site.known_hosts.write_text("")
    core = CoreDouble()
    await core.open(platform.make())
    notice = await noticed(core, "is not known")
    assert (
        "ssh-ed25519 SHA256:" in notice and f"ssh-keyscan -p {machine.port} {machine.address} >> " in notice
    )
    assert "hostKeyPolicy: accept-new" in notice
    await core.close(detach=True)
    make_key(platform.directory / "other")
    other = (platform.directory / "other.pub").read_text().split()[1]
    platform.site.known_hosts.write_text(f"[{machine.address}]:{machine.port} ssh-ed25519 {other}\n")
    platform.settings["host_key_policy"] = "accept-new"
    await core.open(platform.make())
    assert f"-R '[{machine.address}]:{machine.port}'" in await noticed(core, "has changed")
    await core.close(detach=True)
    platform.site.known_hosts.write_text("# nobody")
    await core.open(platform.make())
    job_id = await started(core, platform, "aaaa1", Behaviour.REPORTS_LATER)
    assert platform.site.known_hosts.read_text() == "# nobody\n" + machine.host_key
    await ends_well(core, platform, job_id, "aaaa1")
    await core.close(detach=False)


async def test_why_a_machine_is_of_no_use_is_said(platform: RemotePlatform) -> None:
    machines = platform.site.machines
    machines.pop().stop()
    empty = platform.directory / "empty"
    empty.mkdir()
    for name in ("sh", "env", "sleep"):
        (empty / name).symlink_to(f"/bin/{name}")
    denied = platform.site.machine()
    (denied.directory / "authorized_keys").write_text("")
    pythonless = platform.site.machine(path=str(empty))
    walled = platform.site.machine(forwarding="no")
    core = CoreDouble()
    await core.open(platform.make())
    name_of = platform.title
    notice = await noticed(core, f"{name_of(denied)} rejects the login with the keys in ~/.ssh")
    assert "sshKeyFile" in notice
    assert "set its directory as pythonPath" in await noticed(
        core, f"{name_of(pythonless)} has no Python 3.8"
    )
    assert "nniManagerIp" in await noticed(core, f"{name_of(walled)} forbids the tunnel")
    await core.close(detach=True)


async def test_the_directory_on_the_machine_goes_only_if_so_wanted(platform: RemotePlatform) -> None:
    home = platform.site.machines[0].home
    for clean_up in (False, True):
        platform.settings["clean_up"] = clean_up
        core = CoreDouble()
        platform.experiment = f"clean-{clean_up}".lower()
        await core.open(platform.make())
        trial = "bbbb2" if clean_up else "aaaa1"
        job_id = await started(core, platform, trial, Behaviour.REPORTS_LATER)
        await ends_well(core, platform, job_id, trial)
        await core.close(detach=False)
    assert (home / "nni-experiments" / "clean-false" / "environments").is_dir()
    assert not (home / "nni-experiments" / "clean-true").exists()


async def test_the_trial_finds_what_nni_gives_it(platform: RemotePlatform) -> None:
    python = platform.directory / "bin"
    python.mkdir()
    (python / "python3").symlink_to(sys.executable)
    platform.fields["python_path"] = str(python)
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", 'pwd; cat data.txt; env; cat "$NNI_SYS_DIR/parameter.cfg"')
    job_id = core.submit("aaaa1")
    await core.seen(JobEnded, job_id)
    keeper_id = (await core.seen(JobPlaced, job_id)).place.keeper_id
    there = platform.site.machines[0].home / "nni-experiments" / "contract" / "environments" / keeper_id
    trial = there / "trials" / "aaaa1"
    lines = (trial / "stdout").read_text().splitlines()
    assert lines[:2] == [str(trial / "code"), "from the code"]
    assert lines[-1] == core.spec("aaaa1").parameter_text
    for line in (
        "NNI_PLATFORM=local",
        "NNIMGR_PLATFORM=remote",
        "NNI_EXP_ID=contract",
        "NNI_TRIAL_JOB_ID=aaaa1",
        "NNI_TRIAL_SEQ_ID=0",
        f"NNI_CODE_DIR={trial}/code",
        f"NNI_SYS_DIR={trial}",
        f"NNI_OUTPUT_DIR={trial}",
    ):
        assert line in lines
    assert any(line.startswith(f"PATH={python}:") for line in lines)
    await core.close(detach=False)


async def test_files_are_read_without_a_keeper(platform: RemotePlatform) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    big = "x" * 99 + "\n"
    platform.script("aaaa1", f"for i in $(seq 9000); do echo {big[:-1]}; done; echo last; ln -s stdout link")
    job_id = core.submit("aaaa1")
    await core.seen(JobEnded, job_id)
    keeper_id = (await core.seen(JobPlaced, job_id)).place.keeper_id
    await core.close(detach=False)
    machine = platform.site.machines[0]
    await gone(machine)
    (host,) = platform.make().hosts()
    files, folder = host.files(), attempt_folder("aaaa1", 1)
    whole = (big * 9000 + "last\n").encode()  # larger than one piece
    chunks = [chunk async for chunk in files.read(folder, "stdout")]
    assert b"".join(chunks) == whole and len(chunks) > 2
    assert b"".join([chunk async for chunk in files.read(folder, "stdout", tail=2)]) == whole[-105:]
    listing = await files.listing(folder)
    assert {file.path: file.size for file in listing.files}["stdout"] == len(whole)
    assert listing.complete and "link" not in [file.path for file in listing.files]
    for path, error in (
        ("link", FileNotFoundError),
        ("nope", FileNotFoundError),
        ("../aaaa1/stdout", ValueError),
    ):
        with pytest.raises(error):
            await anext(files.read(folder, path))
    with pytest.raises(ValueError):
        await anext(files.read((*folder, "..", "aaaa1"), "stdout"))
    there = f"nni-experiments/contract/environments/{keeper_id}"
    many = machine.home / there / "trials" / "aaaa1" / "many"
    many.mkdir()
    for number in range(2500):
        (many / f"{number:0200}").touch()  # more names than fit into one piece
    listing = await files.listing(folder)
    assert len(listing.files) > 2500 and len({file.path for file in listing.files}) == len(listing.files)
    shutil.rmtree(machine.home / there)
    with pytest.raises(
        ServiceUnavailable, match=f"on {platform.title(machine)}, there is no ~/{there} any more"
    ):
        await anext(files.read(folder, "stdout"))
    await host.close()
    machine.stop()
    with pytest.raises(
        ServiceUnavailable, match=f"~/{there} on .* cannot be reached: nothing listens on port"
    ):
        await files.listing(folder)
    await host.close()
    assert len(platform.tools.machines) == 0
