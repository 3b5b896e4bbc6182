"""A trial that saves on one machine and continues on another: its curve is that of an uninterrupted run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.remote import Field, field
from tests.e2e.scene import eventually
from tests.e2e.test_checkpoints import STEPS, TRIAL, chain
from tests.machines.bed import Bed, bed
from tests.machines.machine import Machine
from training_services.keepers.names import host_of

LIMIT_S = 180.0
WAIT = """
    while step == 20 and not os.path.exists(os.environ["RECORDS"] + "/end") and not nni.should_checkpoint():
        time.sleep(0.05)
"""


@pytest.fixture
def found() -> Iterator[Bed]:
    with bed() as made:
        yield made


class Moving(Field):
    """One trial on two machines, which has begun to save checkpoints and does not end before ``check``."""

    def begin_saving(self, **more: Any) -> None:
        code = self.directory / "code"
        code.mkdir()
        step = "    time.sleep(0.05)\n"
        assert step in TRIAL
        (code / "trial.py").write_text(TRIAL.replace(step, step + WAIT))
        self.create(
            "python3 trial.py",
            trialCodeDirectory=str(code),
            searchSpace={"seed": {"_type": "randint", "_value": [1, 1_000_000]}},
            silentAfter="2s",
            trainingService={
                "platform": "remote",
                "keepAliveInterval": 1,
                "machineList": [machine.entry() for machine in self.machines],
            },
            **more,
        )

    def body(self, command: str, **more: Any) -> dict[str, Any]:
        space = more.pop("searchSpace")
        return {**super().body(command, **more), "searchSpace": space}

    def detail(self) -> dict[str, Any]:
        trials = self.trials()
        return dict(self.get(f"/trials/{trials[0]['id']}")) if trials else {"checkpoints": [], "jobs": []}

    def checkpoint(self, *, kept: bool) -> dict[str, Any]:
        """Return a checkpoint, once there is one of which the server has a copy if ``kept``."""
        return eventually(
            lambda: next((each for each in self.detail()["checkpoints"] if each["kept"] or not kept), {}),
            "a checkpoint",
        )

    def host(self, attempt: int) -> Machine:
        """Return the machine on which an attempt has run."""
        keeper = next(job["keeperId"] for job in self.detail()["jobs"] if job["attempt"] == attempt)
        return next(machine for machine in self.machines if machine.host == host_of(keeper))

    def name(self, machine: Machine) -> str:
        address = f"{machine.host}:{machine.port}"

        def listed() -> list[dict[str, Any]]:  # refused until a restarted server has opened the service
            return list(self.server.call("GET", f"{self.url}/machines").body.get("machines", ()))

        machines = eventually(listed, "the machines")
        return str(next(each["name"] for each in machines if each["address"] == address))

    def check(self) -> None:
        """Let the trial end, and compare its curve with that of an uninterrupted run."""
        for machine in self.machines:
            (machine.records / "end").touch()
        (trial,) = self.done(LIMIT_S)
        assert trial["status"] == "SUCCEEDED", trial
        rows = self.rows(
            f"SELECT type, sequence, value FROM metrics WHERE attempt = {trial['attempt']} ORDER BY position"
        )
        states = chain(trial["parameters"]["seed"])
        wanted = [("PERIODICAL", number, float(value)) for number, value in enumerate(states)]
        assert len(states) == STEPS and rows == [*wanted, ("FINAL", 0, float(states[-1]))]
        copies = self.folder / "checkpoints"
        eventually(
            lambda: not list(copies.glob("*/*-*")), "the removal of copies, which an ended trial needs not"
        )


@pytest.fixture
def moving(tmp_path: Path, found: Bed) -> Iterator[Moving]:
    machines = [found.machine() for _ in range(2)]
    with field(tmp_path, found, machines, kind=Moving) as made:
        assert isinstance(made, Moving)
        yield made


def test_a_trial_continues_on_another_machine_after_its_own_has_gone(moving: Moving) -> None:
    moving.begin_saving(lease="10s")
    moving.checkpoint(kept=True)
    first = moving.host(1)
    first.power_off()
    moving.check()
    jobs = moving.detail()["jobs"]
    assert len(jobs) == 2 and moving.host(2) is not first


def test_a_drained_machine_passes_its_trial_on(moving: Moving) -> None:
    moving.begin_saving()
    moving.checkpoint(kept=False)
    first = moving.host(1)
    trial_id = moving.trial()["id"]
    moving.nnictl("trial", "pause", "exp", "-T", trial_id)
    moving.nnictl("machine", "drain", moving.name(first), "exp")
    eventually(lambda: moving.trial()["status"] == "PAUSED", "the pause")
    moving.nnictl("trial", "resume", "exp", "-T", trial_id)
    moving.check()
    assert moving.host(2) is not first


def test_a_restarted_server_continues_an_interrupted_copy(moving: Moving) -> None:
    moving.begin_saving(lease="20s")
    moving.checkpoint(kept=False)
    moving.restart()
    moving.checkpoint(kept=True)
    first = moving.host(1)
    moving.nnictl("machine", "remove", moving.name(first), "exp", "--force")
    moving.check()
    assert moving.detail()["jobs"][-1]["keeperId"] != moving.detail()["jobs"][0]["keeperId"]
