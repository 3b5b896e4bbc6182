"""Slurm behind a login node: its commands run there, over SSH, and not where the server runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.machines.bed import Bed
from tests.machines.machine import Machine
from tests.slurm.cluster import SlurmCluster
from tests.slurm.platform import SlurmPlatform
from tests.slurm.test_failures import ran, until, with_ran
from tests.training_services.machines.local_platform import REPORT
from training_services.base import JobEnded
from training_services.slurm import login
from training_services.testing import CoreDouble, TrainingServiceContract

Make = Callable[[], SlurmPlatform]


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    # on a loopback address, from which the login node reaches the cluster
    found = Bed(tmp_path_factory.mktemp("bed"), None)
    with contextlib.closing(found):
        yield found


@pytest.fixture(scope="module")
def node(bed: Bed, slurm: SlurmCluster) -> Machine:
    """A login node. Only there does a user know the cluster."""
    return bed.machine(environ={name: slurm.environ[name] for name in ("PATH", "SLURM_CONF")})


@pytest.fixture
async def platform(
    tmp_path: Path, slurm: SlurmCluster, bed: Bed, node: Machine, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SlurmPlatform]:
    monkeypatch.setenv("HOME", str(bed.client))  # whose known_hosts has the login node
    made = SlurmPlatform(tmp_path, slurm, login=node.entry(sshKeyFile=bed.key))
    made.address = "127.0.0.1"
    made.environ = {name: value for name, value in bed.environ.items() if name != "SLURM_CONF"}
    yield made
    await made.close()


class TestThroughALoginNode(TrainingServiceContract):
    """The contract. The fixture ``platform`` is that of this module."""


async def test_a_login_node_that_cannot_be_reached_delays_and_doubles_nothing(
    platform: SlurmPlatform, node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "LOOK_S", 1.0)
    core = CoreDouble()
    service = platform.make()
    await core.open(service)
    platform.script("aaaa1", with_ran(platform, REPORT))
    node.kill_sshd()
    job_id = core.submit("aaaa1")
    await until(lambda: "nothing listens on port" in str([each.reason for each in service.machines()]))
    node.start_sshd()
    assert (await core.seen(JobEnded, job_id)).exit_code == 0
    assert ran(platform) == ["aaaa1"]
    await core.close(detach=False)
