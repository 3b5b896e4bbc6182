"""NNI's routes about TensorBoards. NNI calls a running TensorBoard a task."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nnimgr.api.nni.asking import answer, body_of, target
from nnimgr.api.nni.javascript import stringify
from nnimgr.api.tensorboards import refresh_tensorboard, start_tensorboard
from nnimgr.tensorboard.process import TensorBoardMissing
from nnimgr.tensorboard.tasks import Task, TensorBoardRefused, UnknownTask

__all__ = ["ROUTES"]


async def start(request: Request) -> Response:
    """Start a TensorBoard over the trials whose ids the request's field ``trials`` lists, separated by
    commas.
    """
    about, body = target(request), await body_of(request)
    trials = body.get("trials") if isinstance(body, dict) else None
    ids = [each for part in trials.split(",") if (each := part.strip())] if isinstance(trials, str) else []
    if not ids:
        raise HTTPException(400, 'The body must name trials, for example {"trials": "abcde,fghij"}.')
    try:
        task = await start_tensorboard(about.parts, about.id, ids)
    except (TensorBoardMissing, TensorBoardRefused) as error:
        raise HTTPException(400, str(error)) from error
    return _shown(request, task)


async def show(request: Request) -> Response:
    """Return the TensorBoard that the path names, in NNI's form."""
    return _shown(request, _task(request))


async def refresh(request: Request) -> Response:
    """Let a TensorBoard read the files of its trials again, also from other machines."""
    task = _task(request)
    await refresh_tensorboard(target(request).parts, task)
    return _shown(request, task)


async def stop(request: Request) -> Response:
    """Stop a TensorBoard. Return when its process has ended."""
    task = _task(request)
    await task.stop()
    return _shown(request, task)


async def list_all(request: Request) -> Response:
    """Return all TensorBoards of the experiment."""
    about = target(request)
    return answer(stringify([_plain(request, task) for task in about.parts.tensorboards.of(about.id)]))


async def stop_all(request: Request) -> Response:
    """Stop all TensorBoards of the experiment."""
    about = target(request)
    await about.parts.tensorboards.stop_all(about.id)
    return answer()


def _task(request: Request) -> Task:
    """Return the TensorBoard that the request's path names. Raise HTTPException if there is none."""
    about = target(request)
    try:
        return about.parts.tensorboards.get(about.id, request.path_params["task"])
    except UnknownTask as error:
        raise HTTPException(500, "Tensorboard task not found") from error


def _shown(request: Request, task: Task) -> Response:
    return answer(stringify(_plain(request, task)))


def _plain(request: Request, task: Task) -> dict[str, Any]:
    """Return a TensorBoard in NNI's form. ``port`` is the server's port, because TensorBoard itself has no
    port.
    """
    parts = target(request).parts
    shown: dict[str, Any] = {
        "id": task.id,
        "status": task.status.value,
        "trialJobIdList": [trial.trial_id for trial in task.trials],
        "trialLogDirectoryList": [trial.shown for trial in task.trials],
        "port": str(parts.port),
        "path": f"{task.prefix}/",
    }
    if task.pid is not None and task.status.lives:
        shown["pid"] = task.pid
    return shown


ROUTES = (
    Route("/tensorboard", start, methods=["POST"]),
    Route("/tensorboard/{task}", show, methods=["GET"]),
    Route("/tensorboard/{task}", refresh, methods=["PUT"]),
    Route("/tensorboard/{task}", stop, methods=["DELETE"]),
    Route("/tensorboard-tasks", list_all, methods=["GET"]),
    Route("/tensorboard-tasks", stop_all, methods=["DELETE"]),
)
