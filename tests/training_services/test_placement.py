from __future__ import annotations

import pytest

from training_services.base import JobRejected
from training_services.placement import Gpu, Holding, Host, HostLedger, Need, Waits, place

HOST = Host(id="h", name="this machine", gpus=(Gpu(index=0), Gpu(index=1), Gpu(index=2)))


def need(gpus: float | None, job: str = "x-aaaaa-1", experiment: str = "x") -> Need:
    return Need(experiment_id=experiment, job_id=job, gpus=gpus)


def held(*gpus: int, job: str = "y-bbbbb-1", jobs_per_gpu: int = 1) -> Holding:
    return Holding(experiment_id="y", job_id=job, gpus=gpus, jobs_per_gpu=jobs_per_gpu)


@pytest.mark.parametrize("gpus", [None, 0])
def test_without_gpus_a_host_takes_any_number(gpus: float | None) -> None:
    assert place(need(gpus), Host(id="h", name="this machine"), ()) == ()


def test_the_first_free_ones_are_given() -> None:
    assert place(need(2), HOST, [held(0)]) == (1, 2)


def test_the_least_shared_come_first() -> None:
    host = Host(id="h", name="this machine", gpus=HOST.gpus, max_jobs_per_gpu=2)
    holdings = [held(0, jobs_per_gpu=2), held(1, jobs_per_gpu=2, job="y-ccccc-1")]
    assert place(need(1), host, holdings) == (2,)
    assert place(need(1), host, [*holdings, held(2, jobs_per_gpu=2, job="y-ddddd-1")]) == (0,)


def test_whoever_wants_a_gpu_alone_has_it_alone() -> None:
    host = Host(id="h", name="this machine", gpus=(Gpu(index=0),), max_jobs_per_gpu=4)
    assert isinstance(place(need(1), host, [held(0)]), Waits)


def test_a_fraction_shares_a_gpu() -> None:
    host = Host(id="h", name="this machine", gpus=(Gpu(index=0),))
    half = need(0.5)
    assert place(half, host, [held(0, jobs_per_gpu=2)]) == (0,)
    assert isinstance(place(half, host, [held(0, jobs_per_gpu=2), held(0, job="z", jobs_per_gpu=2)]), Waits)


def test_active_gpus_are_left_alone_unless_wanted() -> None:
    gpus = (Gpu(index=0, active=True),)
    waits = place(need(1), Host(id="h", name="this machine", gpus=gpus), ())
    assert isinstance(waits, Waits)
    assert waits.reason == (
        "waits for a free GPU: 1 of 1 GPU on this machine is in use (1 GPU by processes that are not trials)"
    )
    assert place(need(1), Host(id="h", name="this machine", gpus=gpus, use_active_gpu=True), ()) == (0,)


def test_the_reason_names_who_holds_them() -> None:
    holdings = [held(index, job=f"y-{name * 5}-1") for index, name in enumerate("bcd")]
    waits = place(need(1), HOST, holdings)
    assert isinstance(waits, Waits)
    assert waits.reason == (
        "waits for a free GPU: 3 of 3 GPUs on this machine are in use (trial bbbbb of experiment y, "
        "trial ccccc of experiment y, trial ddddd of experiment y)"
    )


def test_what_can_never_be_is_rejected() -> None:
    with pytest.raises(JobRejected, match="asks for 4 GPUs, but this machine has 3"):
        place(need(4), HOST, ())
    with pytest.raises(JobRejected, match="but this machine has none"):
        place(need(1), Host(id="h", name="this machine"), ())
    with pytest.raises(JobRejected, match="gpuIndices allows 1 of the 3 on this machine"):
        place(need(2), Host(id="h", name="this machine", gpus=HOST.gpus, gpu_indices=(1,)), ())


def test_experiments_share_the_ledger() -> None:
    ledger = HostLedger()
    freed: list[str] = []
    ledger.listen("y", lambda: freed.append("y"))
    assert ledger.place(need(3), HOST) == (0, 1, 2)
    assert isinstance(ledger.place(need(1, job="y-bbbbb-1", experiment="y"), HOST), Waits)
    ledger.release("h", "x-aaaaa-1")
    ledger.release("h", "x-aaaaa-1")
    assert freed == ["y"]
    assert ledger.place(need(1, job="y-bbbbb-1", experiment="y"), HOST) == (0,)
    ledger.ignore("y")
    ledger.release("h", "y-bbbbb-1")
    assert freed == ["y"]


def test_no_gpu_is_given_away_before_all_are_back() -> None:
    ledger = HostLedger()
    freed: list[None] = []
    ledger.listen("x", lambda: freed.append(None))
    ledger.expect(["y", "z"])
    assert ledger.place(need(0), HOST) == ()
    assert isinstance(ledger.place(need(1), HOST), Waits)
    with pytest.raises(JobRejected):
        ledger.place(need(4), HOST)
    ledger.hold(need(1, job="y-bbbbb-1", experiment="y"), HOST, (0,))
    ledger.rebuilt("y")
    assert freed == []
    ledger.rebuilt("z")
    assert freed == [None]
    assert ledger.place(need(1), HOST) == (1,)
