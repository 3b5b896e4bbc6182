"""Prepares the folder of an experiment that was copied from another place, perhaps while it was running."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nnimgr.core.managing.folder import Surroundings
from nnimgr.rules import facts as f
from nnimgr.rules.checkpoints import recovery_point
from nnimgr.rules.fold import apply
from nnimgr.rules.plan import plan
from nnimgr.rules.state import ExperimentState, TrialState
from nnimgr.store.writer import ExperimentWriter
from training_services.keepers.names import LOCAL
from training_services.machines.local import continue_keeper

__all__ = ["settle_copy"]

_COPIED = "the experiment was copied while the trial was running elsewhere"
_RAN = "its original was running when it was copied"
_STRANDED = (
    "the trial will start from the beginning: its checkpoints are on other machines, and were not copied "
    "with the experiment"
)


async def settle_copy(directory: Path, *, code: Path | None) -> int:
    """Stop the copy of an experiment, so that it can be viewed and resumed here. Raise StoreError or OSError.

    Trials that were running when the copy was made end as if the experiment had been stopped: a resume runs
    them again. ``code``: new value of trialCodeDirectory; None keeps the present value. Return the number of
    paused trials that will start from the beginning, because their checkpoints are not in the copy.
    """
    Surroundings.of_creator(environ=None, cwd=None if code is None else str(code), python=None).write(
        directory
    )
    writer = ExperimentWriter(directory)
    try:
        state = await writer.open()
        now = max(datetime.now(UTC), state.last_at or datetime.now(UTC))
        turn: list[f.Recorded] = []

        def fold(fact: f.Fact) -> None:
            turn.append(f.Recorded(state.number + 1, now, fact))
            apply(state, turn[-1])

        if code is not None:
            fold(_moved_code(state, code))
        ran = state.ended_at is None
        if ran:
            fold(f.ExperimentStopRequested(detach=False))
        for job in [job for job in state.jobs.values() if not job.closed]:
            fold(f.JobLost(job_id=job.id, reason=_COPIED))
        last = state.last_commands()
        for keeper_id, keeper in list(state.keepers.items()):
            if keeper_id == LOCAL and keeper.instance is not None:  # its trials' files are in this folder
                continue_keeper(directory, instance=keeper.instance, last_cmd=last[LOCAL])
                fold(f.KeeperAcknowledged(keeper_id=LOCAL, acked_cmd=last[LOCAL]))
            else:
                fold(f.KeeperGone(keeper_id=keeper_id))
        stranded = [trial for trial in state.trials.values() if _is_stranded(state, trial)]
        for trial in stranded:
            fold(f.TrialNoted(trial_id=trial.id, note=_STRANDED))
        while facts := plan(state, now, ahead=0).facts:
            for fact in facts:
                fold(fact)
        if ran:
            fold(f.ExperimentMoved(status=state.status, drain=state.drain, reason=_RAN))
        if turn:
            await writer.append(state, turn, state.take_touched())
        await writer.close(state)
    finally:
        await writer.close()
    return len(stranded)


def _is_stranded(state: ExperimentState, trial: TrialState) -> bool:
    """Return whether a paused trial had saved its state where the copy cannot find it."""
    saved = trial.checkpoints or trial.origin is not None
    return trial.status is f.TrialStatus.PAUSED and bool(saved) and recovery_point(state, trial) is None


def _moved_code(state: ExperimentState, code: Path) -> f.ConfigChanged:
    service = state.config.get("trainingService") or {}
    several = isinstance(service, list)
    moved = [_with_code(each, code) for each in service] if several else _with_code(service, code)
    changes = {"trialCodeDirectory": str(code), "trainingService": moved}
    return f.ConfigChanged(changes=changes, limits=state.limits)


def _with_code(service: Mapping[str, Any], code: Path) -> dict[str, Any]:
    return {**service, **({"trialCodeDirectory": str(code)} if "trialCodeDirectory" in service else {})}
