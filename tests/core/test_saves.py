"""A running trial is asked to save its state, on platforms that can ask it and on others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nnimgr.rules import facts as f
from nnimgr.rules.state import trial_id_of
from tests.core.lab import Lab, until, until_status
from training_services.base import SaveOrdered, TrainingService
from training_services.fake import FakeService, ended, hold, metric, started

FIRST = trial_id_of("exp", 0)
JOB = f"exp-{FIRST}-1"


def scripted(lab: Lab) -> None:
    lab.service.script(FIRST, [started(), hold(), metric(1, final=True), ended(0)])


async def test_the_order_to_save_is_committed_before_it_is_sent(lab: Lab) -> None:
    scripted(lab)
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until(runner, lambda: runner.state.counts.get(f.TrialStatus.RUNNING) == 1)
        await runner.save_trial(FIRST)
        await until(runner, lambda: ("save", JOB) in lab.service.orders)
        assert not runner.state.saving
        lab.service.resume(JOB)
        await until_status(runner, f.ExperimentStatus.DONE)


async def test_a_platform_that_cannot_ask_its_jobs_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(self: FakeService, job_id: str, *, within: timedelta) -> SaveOrdered | None:
        return TrainingService.save_trial_job(self, job_id, within=within)

    monkeypatch.setattr(FakeService, "save_trial_job", cannot)
    scripted(lab)
    async with lab.runner(trial_concurrency=1, max_trial_number=1) as runner:
        await until(runner, lambda: runner.state.counts.get(f.TrialStatus.RUNNING) == 1)
        await runner.save_trial(FIRST)
        await until(runner, lambda: runner.state.trials[FIRST].note is not None)
        assert "on this platform trials are not asked to save" in (runner.state.trials[FIRST].note or "")
        assert not runner.state.saving and not [order for order in lab.service.orders if order[0] == "save"]
        lab.service.resume(JOB)
        await until_status(runner, f.ExperimentStatus.DONE)
