"""The notice about a scheduler whose trials save no checkpoints."""

from __future__ import annotations

from typing import Any, cast

from nnimgr.core.running.notices import Notice
from nnimgr.core.running.scheduler_process import SchedulerProcess
from nnimgr.dispatcher import messages as m
from nnimgr.rules import facts as f
from nnimgr.rules.decisions import NOTHING_SAVED
from nnimgr.rules.state import job_id_of


def refused(reason: str) -> f.DecisionRefused:
    return f.DecisionRefused(trial_id="aaaa1", kind=f.DecisionKind.PAUSE, cause=1, reason=reason)


def test_trials_that_save_nothing_are_a_notice_until_one_saves() -> None:
    notices: dict[str, Notice] = {}
    start = m.Start(
        role="scheduler",
        name="ASHA",
        class_name=None,
        code_directory=None,
        class_args={},
        search_space={},
        experiment_id="exp",
        database="",
        rebuild_to=0,
        checkpoint_directory="",
        seed=0,
    )
    process = SchedulerProcess(start, spawn=cast(Any, None), post=cast(Any, None), notices=notices)
    process.committed(1, refused("a user has paused the trial"))
    assert not notices
    process.committed(2, refused(f"{NOTHING_SAVED}, from which it could continue later"))
    (notice,) = notices.values()
    assert notice.sentence == (
        "the scheduler ASHA left trials as they were, because they had saved no checkpoint when it compared "
        "them; let the trials call nni.save_checkpoint before that"
    )
    saved = f.CheckpointReported(
        job_id=job_id_of("exp", "aaaa1", 1), position=0, number=1, reports=1, step=None, size=1, files=1
    )
    process.committed(3, saved)
    assert not notices
