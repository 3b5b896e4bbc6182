"""Routes for the course of one trial: stop, pause, resume, save, fork; for its legs and its checkpoints."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Path
from fastapi.responses import Response

from nnimgr.api import models
from nnimgr.api.convert import fork_of, leg_of, related_of
from nnimgr.api.dependencies import Live, Reader, TrialId, refusals, reply
from nnimgr.api.routes.trials import IdempotencyKey, has_ended, trial_row
from nnimgr.api.routing import Router
from nnimgr.core.running.new_trials import check_changes, fork_origin
from nnimgr.core.running.requests import RequestRefused, UnknownTrial
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.store.reader import ExperimentReader

router = Router(prefix="/api/v1/experiments/{id}", tags=["trials"])

_OfAttempt = Annotated[
    int, Path(ge=1, lt=2**31, description="number of the attempt that has saved the checkpoint")
]
_Number = Annotated[int, Path(ge=1, lt=2**31, description="number of the checkpoint in its attempt")]


@router.post("/trials/{trialId}/stop", status_code=202, responses=refusals(404, 409))
async def stop_trial(runner: Live, reader: Reader, trial_id: TrialId) -> models.Done:
    """Stop a trial. The answer comes when the stop is stored; the trial ends soon after."""
    return await _change(runner.stop_trial, reader, trial_id)


@router.post("/trials/{trialId}/pause", status_code=202, responses=refusals(404, 409))
async def pause_trial(runner: Live, reader: Reader, trial_id: TrialId) -> models.Done:
    """Pause a trial. The answer comes when the pause is stored; the trial's processes end soon after.

    A running trial that looks for such requests (`nni.should_checkpoint()`) first saves its state. A paused
    trial holds no slot and no resources. It continues from its last checkpoint when it is resumed, or starts
    from the beginning if it has none.
    """
    return await _change(runner.pause_trial, reader, trial_id)


@router.post("/trials/{trialId}/resume", status_code=202, responses=refusals(404, 409))
async def resume_trial(runner: Live, reader: Reader, trial_id: TrialId) -> models.Done:
    """Continue a paused trial as soon as a slot is free, from its last checkpoint."""
    return await _change(runner.resume_trial, reader, trial_id)


@router.post("/trials/{trialId}/save", status_code=202, responses=refusals(404, 409))
async def save_trial(runner: Live, reader: Reader, trial_id: TrialId) -> models.Done:
    """Ask a running trial to save its state. The trial runs on.

    The answer comes when the request is stored. A trial that looks for such requests
    (`nni.should_checkpoint()`) saves soon after; then its checkpoints have one more. If it does not look for
    them, or has not saved within `checkpoints.saveWithin`, a notice of the trial says so.
    """
    return await _change(runner.save_trial, reader, trial_id)


@router.post("/trials/{trialId}/lost", status_code=202, responses=refusals(404, 409))
async def lose_trial(runner: Live, reader: Reader, trial_id: TrialId) -> models.Done:
    """Declare that the machine of an UNKNOWN trial will not come back, so that its attempt counts as lost.

    The trial gets another attempt, as after the loss of any machine. If the old attempt still runs, it is
    stopped as soon as its machine can be reached again, and its results do not count.
    """
    return await _change(runner.lose_trial, reader, trial_id)


async def _change(
    change: Callable[[str], Awaitable[None]], reader: ExperimentReader, trial_id: str
) -> models.Done:
    """Change one trial. If the trial has ended, raise RequestRefused with the status of its end."""
    try:
        await change(trial_id)
    except UnknownTrial:
        row = await asyncio.to_thread(trial_row, reader, trial_id)
        raise RequestRefused(has_ended(row)) from None
    return models.Done()


@router.post("/trials/{trialId}/fork", status_code=201, responses=refusals(404, 409, 422))
async def fork_trial(
    runner: Live,
    reader: Reader,
    trial_id: TrialId,
    wanted: models.ForkTrial | None = None,
    key: IdempotencyKey = None,
) -> models.AddedTrial:
    """Add a trial that continues from a checkpoint of this trial, with the same or other parameters.

    The trial itself is not changed, and may have ended. A changed value that is outside of the search space
    is used, and named in `warnings`. A value that is not a number where the search space has numbers is
    refused. A client that got no answer repeats the request with
    the same `Idempotency-Key`, as when it adds a trial.
    """
    wanted = wanted or models.ForkTrial.model_validate({})
    row = await asyncio.to_thread(trial_row, reader, trial_id)
    named = None if wanted.checkpoint is None else (wanted.checkpoint.attempt, wanted.checkpoint.number)
    if trial_id in runner.state.trials:
        origin = fork_origin(runner.state, trial_id, named)
    else:
        found = await asyncio.to_thread(reader.origin, trial_id, named)
        if found is None:
            which = "checkpoint" if named is None else f"checkpoint {named[1]} of attempt {named[0]}"
            raise RequestRefused(
                f"trial {row.title} has no {which} from which a trial could continue; to list its "
                f'checkpoints: "nnictl trial checkpoint ls {runner.state.id} -T {trial_id}"'
            )
        origin = found
    parameters, warnings = json.loads(row.parameters), []
    if wanted.parameters is not None:
        warnings = check_changes(runner.state.id, runner.config, parameters, wanted.parameters)
        parameters = wanted.parameters
    added = await runner.add_trial(parameters, key=key, origin=origin, raise_limit=wanted.raise_limit)
    return models.AddedTrial(id=added.trial_id, sequence=added.sequence, warnings=warnings)


@router.post(
    "/trials/{trialId}/checkpoints/{attempt}-{number}/pin", status_code=202, responses=refusals(404, 409, 422)
)
async def pin_checkpoint(
    runner: Live, reader: Reader, trial_id: TrialId, attempt: _OfAttempt, number: _Number
) -> models.Done:
    """Pin a checkpoint: its files, and the server's copy of it, stay until the pin is taken back."""
    return await _pin(runner, reader, trial_id, attempt, number, pinned=True)


@router.delete(
    "/trials/{trialId}/checkpoints/{attempt}-{number}/pin", status_code=202, responses=refusals(404, 409, 422)
)
async def unpin_checkpoint(
    runner: Live, reader: Reader, trial_id: TrialId, attempt: _OfAttempt, number: _Number
) -> models.Done:
    """Take back the pin of a checkpoint. If nobody else needs the checkpoint, it is deleted."""
    return await _pin(runner, reader, trial_id, attempt, number, pinned=False)


async def _pin(
    runner: ExperimentRunner,
    reader: ExperimentReader,
    trial_id: str,
    attempt: int,
    number: int,
    *,
    pinned: bool,
) -> models.Done:
    await asyncio.to_thread(trial_row, reader, trial_id)
    saved = await asyncio.to_thread(reader.origin, trial_id, (attempt, number))
    await runner.pin_checkpoint(trial_id, attempt, number, pinned=pinned, saved=saved)
    return models.Done()


@router.get("/lineage", response_model=models.Lineage, responses=refusals(404))
async def show_lineage(reader: Reader) -> Response:
    """Return from which checkpoints trials have continued: the legs and forks of the whole experiment."""
    return await reply(
        lambda: models.Lineage(
            trials=[related_of(row) for row in reader.related()],
            legs=[leg_of(row) for row in reader.legs()],
            forks=[fork_of(row) for row in reader.forks()],
        )
    )
