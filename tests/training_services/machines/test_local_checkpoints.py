"""Tests of checkpoints with real keepers, shims and trials that use the trial API."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.training_services.machines.local_platform import LocalPlatform, opened_platform
from training_services.base import (
    CheckpointReported,
    CheckpointsPruned,
    EndReason,
    JobEnded,
    JobPlaced,
    MetricReported,
    Origin,
)
from training_services.keepers.host import attempt_folder
from training_services.testing import CoreDouble

# Trial that counts from the number of its checkpoint, saves it when it is asked to, and never ends by itself.
COUNTS = f"""
exec {sys.executable} - <<'END'
import time
import nni
nni.get_next_parameter()
state = nni.load_checkpoint() or {{"count": 0}}
nni.should_checkpoint()
nni.report_intermediate_result(state["count"])
while True:
    state["count"] += 1
    if nni.should_checkpoint():
        nni.save_checkpoint(state, step=state["count"], metric=state["count"])
    time.sleep(0.005)
END
"""
SAVE = timedelta(seconds=50)


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[LocalPlatform]:
    async with opened_platform(LocalPlatform, tmp_path) as platform:
        yield platform


async def paused(core: CoreDouble, job_id: str) -> CheckpointReported:
    """Stop a job that may save its state before, and return the checkpoint."""
    core.cancel(job_id, save_within=SAVE)
    end = await core.seen(JobEnded, job_id)
    assert end.reason is EndReason.STOPPED
    saved = await core.seen(CheckpointReported, job_id)
    metric = core.metrics(job_id)[-1]
    assert (metric.position, metric.value) == (saved.position - 1, saved.step)
    return saved


async def test_a_stopped_trial_saves_its_state_and_continues_there(platform: LocalPlatform) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", COUNTS)
    first = core.submit("aaaa1")
    await core.seen(MetricReported, first)
    saved = await paused(core, first)
    assert saved.asked and saved.number == 1 and saved.position == 2
    keeper_id = (await core.seen(JobPlaced, first)).place.keeper_id
    origin = Origin(
        attempt=1, number=1, keeper_id=keeper_id, step=saved.step, position=saved.position + 1, reports=2
    )
    second = core.submit("aaaa1", attempt=2, origin=origin)
    reported = await core.seen(MetricReported, second)
    assert (reported.position, reported.sequence, reported.value) == (3, 2, saved.step)
    assert (await paused(core, second)).asked
    await core.close(detach=False)


async def test_a_keeper_that_is_killed_while_a_trial_is_asked_to_save_stops_it(
    platform: LocalPlatform,
) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    # The trial looks for requests, and never saves anything.
    platform.script("aaaa1", 'touch "$NNI_SYS_DIR/.nni/asks"; report PERIODICAL 0 1; sleep 1000')
    job_id = core.submit("aaaa1")
    await core.seen(MetricReported, job_id)
    core.cancel(job_id, save_within=SAVE)
    folder = platform.directory / "contract" / Path(*attempt_folder("aaaa1", 1))
    await _until(lambda: (folder / ".nni" / "save").exists())
    (folder / ".nni" / "asks").unlink()  # so that the next keeper does not wait for the trial
    await platform.kill_keeper()
    assert (await core.seen(JobEnded, job_id)).reason is EndReason.STOPPED
    assert platform.processes("aaaa1") == 0
    await core.close(detach=False)


async def test_checkpoints_are_deleted_with_the_next_answer(platform: LocalPlatform) -> None:
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", COUNTS)
    job_id = core.submit("aaaa1")
    await core.seen(MetricReported, job_id)
    await paused(core, job_id)
    keeper_id = (await core.seen(JobPlaced, job_id)).place.keeper_id
    folder = platform.directory / "contract" / Path(*attempt_folder("aaaa1", 1)) / "checkpoints"
    assert [path.name for path in folder.iterdir()] == ["1"]
    core.commit(CheckpointsPruned(job_id=job_id, keeper_id=keeper_id, up_to=1))
    platform.script("bbbb2", "true")
    await core.seen(JobEnded, core.submit("bbbb2"))
    await _until(lambda: not any(folder.iterdir()))
    await core.close(detach=False)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (another process changes the files)
            await asyncio.sleep(0.01)
