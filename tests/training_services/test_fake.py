from __future__ import annotations

from collections.abc import Sequence

import pytest

from training_services.base import (
    FrameSkipped,
    JobEnded,
    JobLost,
    JobNoted,
    JobPlaced,
    JobRejected,
    JobWaiting,
    KnownKeepers,
    ServiceUnavailable,
    TrainingService,
)
from training_services.fake import (
    FakeService,
    Step,
    ended,
    hold,
    lost,
    metric,
    noted,
    rejected,
    saved,
    skipped,
    started,
)
from training_services.testing import Behaviour, ContractPlatform, CoreDouble, TrainingServiceContract

REPORT = (metric(1.0), metric(2.0), metric(3.0, final=True), ended(0))
SCRIPTS: dict[Behaviour, list[Sequence[Step]]] = {
    Behaviour.REPORTS: [(started(), *REPORT)] * 2,
    Behaviour.REPORTS_LATER: [(started(), hold(), *REPORT)] * 2,
    Behaviour.SLEEPS: [(started(), hold())] * 2,
    Behaviour.CONTINUES: [
        (started(), metric(float(number)), saved(number), metric(float(number), final=True), ended(0))
        for number in (1, 2)
    ],
}


class FakePlatform(ContractPlatform):
    def __init__(self) -> None:
        self.service = FakeService()

    def make(self) -> TrainingService:
        return self.service

    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        self.service.script(trial_id, *SCRIPTS[behaviour])
        self.service.write_log(f"contract-{trial_id}-1", "stdout", b"hello\n")

    def release(self, trial_id: str) -> None:
        self.service.resume(f"contract-{trial_id}-1")

    def processes(self, trial_id: str) -> int:
        return self.service.running(trial_id)


class TestFakeService(TrainingServiceContract):
    @pytest.fixture
    def platform(self) -> FakePlatform:
        return FakePlatform()


async def test_a_script_says_what_happens() -> None:
    service, core = FakeService(), CoreDouble()
    service.script("aaaa1", [noted("odd"), skipped("no JSON"), lost("the host burnt")], [ended(3)])
    await core.open(service)
    first = core.submit("aaaa1")
    assert (await core.seen(JobLost, first)).reason == "the host burnt"
    assert (await core.seen(JobNoted, first)).note == "odd"
    assert (await core.seen(FrameSkipped, first)).position == 0
    assert (await core.seen(JobEnded, core.submit("aaaa1", attempt=2))).exit_code == 3
    await core.close(detach=False)
    assert service.closed is False


async def test_slots_make_jobs_wait() -> None:
    service, core = FakeService(slots=1), CoreDouble()
    service.script("aaaa1", [started(), hold(), ended(0)])
    await core.open(service)
    first, second = core.submit("aaaa1"), core.submit("bbbb2")
    assert [type(fact) for fact in core.of(second)] == [JobWaiting]
    service.resume(first)
    await core.seen(JobEnded, second)
    assert [type(fact) for fact in core.of(second)][:2] == [JobWaiting, JobPlaced]
    assert service.orders == [("start", first), ("start", second)]
    await core.close(detach=True)


async def test_it_can_refuse() -> None:
    service = FakeService(unavailable=["the platform sleeps"])
    service.script("aaaa1", [rejected("too large")])
    known = KnownKeepers(db_id="d", m_epoch=1)
    with pytest.raises(ServiceUnavailable, match="sleeps"):
        await service.open(known)
    await service.open(known)
    with pytest.raises(JobRejected, match="too large"):
        service.submit_trial_job(CoreDouble().spec("aaaa1"))
