"""Which services an experiment's list of platforms becomes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from training_services import registry
from training_services.base import ExperimentContext, TrainingService
from training_services.hybrid.building import PlatformPart, build_service
from training_services.hybrid.route import Spill
from training_services.hybrid.service import HybridService
from training_services.keepers.hub import KeeperHub
from training_services.machines.local import LocalConfig
from training_services.machines.service import MachineService
from training_services.placement.ledger import HostLedger
from training_services.slurm.config import SlurmConfig
from training_services.slurm.service import SlurmService
from training_services.ssh.config import MachineConfig, RemoteConfig
from training_services.tools import ServiceTools

CONFIGS: Mapping[str, BaseModel] = {
    "local": LocalConfig(),
    "remote": RemoteConfig.model_validate({"machineList": [{"host": "a", "password": "secret"}]}),
    "slurm": SlurmConfig.model_validate({"timeLimit": "1h"}),
}


def added(machine: Mapping[str, Any]) -> MachineConfig:
    return MachineConfig.model_validate({"password": "secret", **machine})


def build(directory: Path, *names: str, spill: Spill | None = None) -> TrainingService:
    parts = []
    for name in names:
        context = ExperimentContext(
            experiment_id="exp",
            directory=directory,
            trial_command="true",
            trial_code_directory=directory,
            trial_gpu_number=None,
            python="python3",
            environ={},
            one_of_several=name if len(names) > 1 else "",
        )
        parts.append(PlatformPart(name, registry.create(name), context, CONFIGS[name]))
    tools = ServiceTools(hub=KeeperHub(), ledger=HostLedger())
    return build_service(parts, tools, spill=spill, reveal=added)


def hosts(service: TrainingService) -> list[str]:
    assert isinstance(service, HybridService | MachineService)
    return [host.host.name for host in service.hosts([{"host": "b"}])]


def test_one_platform_is_its_own_service(tmp_path: Path) -> None:
    assert isinstance(build(tmp_path, "slurm"), SlurmService)
    assert isinstance(build(tmp_path, "local"), MachineService)


def test_machines_that_stay_are_one_service(tmp_path: Path) -> None:
    service = build(tmp_path, "local", "remote")
    assert isinstance(service, MachineService)
    assert len(hosts(service)) == 3


@pytest.mark.parametrize("names", [("local", "slurm"), ("slurm", "local", "remote")])
def test_a_cluster_makes_a_service_of_several(tmp_path: Path, names: tuple[str, ...]) -> None:
    service = build(tmp_path, *names)
    assert isinstance(service, HybridService)
    able = service.capabilities
    assert (able.machines, able.allocations, able.keeps_files, able.checkpoints) == (True,) * 4
    assert len(hosts(service)) == len(names)  # with the machine that was added, and without the cluster


def test_an_order_makes_a_service_of_several(tmp_path: Path) -> None:
    spill = Spill(after=timedelta(minutes=2), order=(1, 0))
    service = build(tmp_path, "local", "remote", spill=spill)
    assert isinstance(service, HybridService)
    first, *others = hosts(service)
    assert len(others) == 2 and first != "this machine"
    assert not service.capabilities.allocations
