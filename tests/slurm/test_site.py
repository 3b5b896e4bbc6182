"""An experiment's part of a cluster, without Slurm."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from training_services.addresses import PrivateDoor, Reach
from training_services.base import ExperimentContext, ServiceUnavailable
from training_services.keepers.host import HostGone
from training_services.placement.needs import Wants
from training_services.slurm.commands import Commands, Outcome
from training_services.slurm.config import SlurmConfig
from training_services.slurm.login import Login
from training_services.slurm.site import Site


class _Commands(Commands):
    key = title = "test"

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    async def run(self, *words: str, text: str = "") -> Outcome:
        self.calls.append(words)
        await asyncio.sleep(0)
        return Outcome(0, "SlurmctldHost[0]        = head(127.0.0.1)\n", "")


class _Doors:
    url: str | None = None

    async def local(self) -> Reach:
        raise AssertionError

    async def private(self) -> PrivateDoor:
        raise AssertionError

    async def network(self, address: str) -> Reach:
        return Reach([f"https://{address}:1"])


def _site(directory: Path, place: Login) -> Site:
    context = ExperimentContext(
        experiment_id="e",
        directory=directory,
        trial_command="true",
        trial_code_directory=directory,
        trial_gpu_number=None,
        python="python3",
        environ={},
    )
    return Site(context, SlurmConfig.model_validate({"timeLimit": "1h"}), _Doors(), place)


async def test_the_servers_address_is_found_once_for_all_experiments(tmp_path: Path) -> None:
    commands = _Commands()
    place = Login(commands)
    sites = [_site(tmp_path, place) for _ in range(3)]
    found = await asyncio.gather(*(site.reach() for site in sites))
    assert found == [Reach(["https://127.0.0.1:1"])] * 3
    assert commands.calls == [("scontrol", "show", "config")]


@pytest.mark.parametrize(
    ("errors", "is_lasting"),
    [
        ("Required partition not available (inactive or drain)", False),
        ("Requested partition configuration not available now", False),
        ("Required node not available (down, drained or reserved)", False),
        ("AssocGrpSubmitJobsLimit; Job violates accounting/QOS policy (job submit limit, ...)", False),
        ("QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy (job submit limit, ...)", False),
        ("Requested node configuration is not available", True),
        ("AssocMaxWallDurationPerJobLimit; Job violates accounting/QOS policy", True),
        ("invalid partition specified: nowhere", True),
    ],
)
async def test_a_refusal_that_passes_is_not_the_users_fault(
    tmp_path: Path, errors: str, is_lasting: bool
) -> None:
    place = Login(_Refusing(errors))
    site = _site(tmp_path, place)
    manager = {"urls": ["https://127.0.0.1:1"]}
    with pytest.raises(HostGone if is_lasting else ServiceUnavailable, match=re.escape(errors)):
        await site.submit("e-p1", wants=Wants(None, None, None), manager=manager)
    await place.close()


class _Refusing(_Commands):
    def __init__(self, errors: str) -> None:
        super().__init__()
        self._errors = errors

    async def run(self, *words: str, text: str = "") -> Outcome:
        return Outcome(1, "", f"sbatch: error: {self._errors}\n")
