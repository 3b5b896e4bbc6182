"""Routes for the TensorBoards of an experiment: start, list, show, refresh and stop them, and show their
pages.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import RedirectResponse

from nnimgr.api import models
from nnimgr.api.dependencies import ExperimentId, NotFound, Parts, Reader, refusals
from nnimgr.api.tensorboards import refresh_tensorboard, start_tensorboard
from nnimgr.tensorboard.tasks import Task

router = APIRouter(tags=["tensorboard"])

_ALL = "/api/v1/experiments/{id}/tensorboards"
_ONE = f"{_ALL}/{{task}}"
_PAGE = "/tensorboard/{task}"
_METHODS = ["GET", "HEAD", "POST"]

TaskId = Annotated[str, Path(alias="task", max_length=16)]


@router.get(_ALL, responses=refusals(404))
async def list_tensorboards(
    parts: Parts, experiment_id: ExperimentId, reader: Reader
) -> models.RunningTensorBoards:
    """Return the experiment's TensorBoards that this server has started, oldest first."""
    return models.RunningTensorBoards(
        tensorboards=[_shown(task) for task in parts.tensorboards.of(experiment_id)],
        now=parts.tensorboards.now,
    )


@router.post(_ALL, status_code=201, responses=refusals(404, 409, 422))
async def start(
    parts: Parts, experiment_id: ExperimentId, reader: Reader, wanted: models.StartTensorBoard | None = None
) -> models.TensorBoard:
    """Start a TensorBoard over the files of trials. Requests for its page wait until TensorBoard is ready."""
    chosen = None if wanted is None else wanted.trial_ids
    return _shown(await start_tensorboard(parts, experiment_id, chosen))


@router.get(_ONE, responses=refusals(404))
async def show(
    parts: Parts, experiment_id: ExperimentId, reader: Reader, task_id: TaskId
) -> models.TensorBoard:
    """Return the TensorBoard that the path names."""
    return _shown(parts.tensorboards.get(experiment_id, task_id))


@router.post(f"{_ONE}/refresh", responses=refusals(404))
async def refresh(
    parts: Parts, experiment_id: ExperimentId, reader: Reader, task_id: TaskId
) -> models.TensorBoard:
    """Read the files of a TensorBoard's trials on other machines now, without waiting for the next regular
    time.
    """
    task = parts.tensorboards.get(experiment_id, task_id)
    await refresh_tensorboard(parts, task)
    return _shown(task)


@router.delete(_ONE, responses=refusals(404))
async def stop(
    parts: Parts, experiment_id: ExperimentId, reader: Reader, task_id: TaskId
) -> models.TensorBoard:
    """Stop a TensorBoard. Return when its process has ended."""
    task = parts.tensorboards.get(experiment_id, task_id)
    await task.stop()
    return _shown(task)


@router.api_route(_PAGE, methods=_METHODS, include_in_schema=False)
async def page_without_slash(task_id: TaskId) -> Response:
    return RedirectResponse(f"/tensorboard/{task_id}/")


@router.api_route(f"{_PAGE}/{{path:path}}", methods=_METHODS, include_in_schema=False)
async def page(parts: Parts, request: Request, task_id: TaskId) -> Response:
    """Pass a browser's request on to a TensorBoard, and return the TensorBoard's answer."""
    task = parts.tensorboards.find(task_id)
    if task is None or task.address is None:
        reason = "" if task is None or task.message is None else f" {task.message}"
        start = "nnictl tensorboard start" + ("" if task is None else f" {task.experiment_id}")
        raise NotFound(f"This TensorBoard does not run.{reason} Start another: {start}")
    # The proxy imports httpx, which would take a twentieth of the time in which the server starts.
    proxy = await asyncio.to_thread(importlib.import_module, "nnimgr.api.tensorboard_proxy")
    answer: Response = await proxy.forward(request, task.address, closing=parts.shutdown.closing)
    return answer


def _shown(task: Task) -> models.TensorBoard:
    return models.TensorBoard(
        id=task.id,
        status=task.status,
        message=task.message,
        trial_ids=[trial.trial_id for trial in task.trials],
        folders=[trial.shown for trial in task.trials],
        path=f"{task.prefix}/",
        pid=task.pid if task.status.lives else None,
        started_at=task.started_at,
    )
