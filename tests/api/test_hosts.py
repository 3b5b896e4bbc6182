"""Machines of all experiments, and the trials that hold their resources."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tests.api.lab import Lab
from training_services.base import Capabilities, Machine, MachineStatus
from training_services.placement.ledger import Capacity, Gpu, GpuProcess, GpuReading, Host, Need

HOSTS = "/api/v1/hosts"
MACHINES = "/api/v1/experiments/exp/machines"
GPU1 = Machine(
    keeper_id="me_gpu1_22",
    name="gpu1",
    address="me@gpu1:22",
    status=MachineStatus.CONNECTED,
    reason=None,
    since=None,
    job_ids=(),
)


async def test_no_machine_is_known(lab: Lab) -> None:
    assert (await lab.client.get(HOSTS)).json() == {"hosts": [], "waiting": []}


async def test_who_holds_what_and_who_waits(lab: Lab) -> None:
    life, ledger = lab.life, lab.manager.ledger
    life.start(0)
    life.wait_reason = "waits for a GPU of gpu1"
    life.start(1)
    life.end(1)
    lab.service.known_machines = [
        GPU1,
        replace(
            GPU1, keeper_id="x", name="b", address="b", status=MachineStatus.UNREACHABLE, reason="no route"
        ),
    ]
    host = Host(id=GPU1.address, name="gpu1")
    ledger.told(host.id, Capacity(8, 16_000, 500))
    processes = (GpuProcess(7, None), GpuProcess(8, life.job(0)))
    ledger.read(host.id, "keeper", GpuReading((Gpu(index=0, memory=256), Gpu(index=1, processes=processes))))
    ledger.hold(Need(experiment_id="exp", job_id=life.job(0), gpus=1, cpus=2, memory=100), host, (1,))
    ledger.hold(Need(experiment_id="other", job_id="other-zzzzz-3", gpus=None), host, ())
    found = (await lab.client.get(HOSTS)).json()
    first, second = found["hosts"]
    assert (first["name"], first["cpus"], first["memoryMb"], first["diskFreeMb"]) == ("gpu1", 8, 16_000, 500)
    assert first["gpus"] == [
        {"index": 0, "otherMemoryMb": 256, "otherProcesses": []},
        {"index": 1, "otherMemoryMb": 0, "otherProcesses": [7]},
    ]
    assert [(each["experimentId"], each["status"]) for each in first["experiments"]] == [("exp", "connected")]
    held, elsewhere = first["trials"]
    assert held == {
        "experimentId": "exp",
        "trialId": life.trial(0),
        "sequence": 0,
        "attempt": 1,
        "gpus": [1],
        "gpuShare": 1,
        "cpus": 2,
        "memoryMb": 100,
    }
    assert (elsewhere["trialId"], elsewhere["sequence"], elsewhere["attempt"]) == ("zzzzz", None, 3)
    assert (elsewhere["gpus"], elsewhere["gpuShare"]) == ([], None)
    assert (second["cpus"], second["gpus"], second["experiments"][0]["reason"]) == (None, None, "no route")
    assert found["waiting"] == [{"experimentId": "exp", "reason": "waits for a GPU of gpu1", "count": 1}]


async def test_a_queued_trial_waits_for_its_turn(lab: Lab) -> None:
    limit = lab.runner.state.limits.trial_concurrency
    for _ in range(limit + 1):
        lab.life.take(lab.life.suggestion())
    waiting = (await lab.client.get(HOSTS)).json()["waiting"]
    reason = f"waits for its turn: at most {limit} trials run at a time"
    assert {"experimentId": "exp", "reason": reason, "count": len(lab.runner.state.queued)} in waiting
    assert lab.runner.state.queued


async def test_gpus_that_cannot_be_read(lab: Lab) -> None:
    lab.service.known_machines = [GPU1]
    lab.manager.ledger.read(GPU1.address, "keeper", GpuReading((), "there is no nvidia-smi"))
    (host,) = (await lab.client.get(HOSTS)).json()["hosts"]
    assert (host["gpus"], host["gpuTrouble"]) == ([], "there is no nvidia-smi")


async def test_machines_that_can_be_changed(lab: Lab) -> None:
    lab.service.known_machines = [GPU1]
    found = (await lab.client.get(MACHINES)).json()
    assert found["changeable"] is True
    assert [(each["name"], each["endsAt"]) for each in found["machines"]] == [("gpu1", None)]


async def test_only_machines_that_stay_are_changed_beside_allocations(lab: Lab) -> None:
    lab.service.capabilities = Capabilities(updates=True, machines=True, allocations=True)
    pilot = replace(GPU1, keeper_id="slurm-exp-p-1", name="allocation 7", address="slurm/7", passing=True)
    lab.service.known_machines = [GPU1, pilot]
    found = (await lab.client.get(MACHINES)).json()
    assert found["changeable"] is True
    assert [each["madeOnDemand"] for each in found["machines"]] == [False, True]
    assert (await lab.client.post(f"{MACHINES}/{GPU1.keeper_id}/drain")).status_code < 300
    refused = await lab.client.post(f"{MACHINES}/{pilot.keeper_id}/drain")
    assert refused.status_code == 409
    told = refused.json()["error"]["message"]
    assert told.startswith("the platform of allocation 7 makes its machines itself")


async def test_allocations_are_listed_and_cannot_be_changed(lab: Lab) -> None:
    limit = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    lab.service.capabilities = Capabilities(updates=True, allocations=True)
    lab.service.known_machines = [replace(GPU1, name="allocation 7 on n1", ends_at=limit)]
    found = (await lab.client.get(MACHINES)).json()
    assert found["changeable"] is False
    (machine,) = found["machines"]
    assert (machine["name"], machine["endsAt"]) == ("allocation 7 on n1", "2026-01-02T03:04:00Z")
    for answer in (
        await lab.client.post(MACHINES, json={"text": "host: a"}),
        await lab.client.post(f"{MACHINES}/{GPU1.keeper_id}/drain"),
        await lab.client.delete(f"{MACHINES}/{GPU1.keeper_id}"),
    ):
        assert answer.status_code == 409
        assert "this platform makes its machines itself" in answer.json()["error"]["message"]


async def test_a_platform_without_machines(lab: Lab) -> None:
    lab.service.capabilities = Capabilities(updates=True)
    answer = await lab.client.get(MACHINES)
    assert answer.status_code == 409
    assert answer.json()["error"]["message"] == "this platform does not expose individual machines"
