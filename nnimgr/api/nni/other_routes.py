"""NNI's routes for features that nnimgr has in another form, or does not have."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from nnimgr.api.dependencies import NotFound
from nnimgr.api.nni.asking import answer, body_of, target
from nnimgr.api.nni.javascript import stringify
from nnimgr.core.managing.experiment_log import LOG_NAMES

__all__ = ["LOG_ROUTES", "ROUTES"]

_NO_TENSORBOARD = (
    "nnimgr does not start TensorBoard. Start it on the trials' folders, the fields logPath of /trial-jobs: "
    "tensorboard --logdir <folder>"
)


async def cluster_metadata(request: Request) -> Response:
    """Accept values of NNI's first configuration format.

    The client sends them again with the experiment itself.
    """
    if not isinstance(await body_of(request), dict):
        raise HTTPException(400, "The body is not an object.")
    return answer()


async def no_tasks(request: Request) -> Response:
    """Return the list of TensorBoard processes, which is empty."""
    return answer(stringify([]))


async def nothing_to_stop(request: Request) -> Response:
    return answer()


async def start_tensorboard(request: Request) -> Response:
    """Refuse to start TensorBoard, as NNI does where it is not installed."""
    raise HTTPException(400, _NO_TENSORBOARD)


async def unknown_task(request: Request) -> Response:
    raise HTTPException(500, "Tensorboard task not found")


async def log_file(request: Request) -> Response:
    """Return a log of the experiment. Raise NotFound if nothing was written to it."""
    about, name = target(request), request.path_params["name"]
    path = about.parts.manager.directory(about.id) / "log" / name
    if name not in LOG_NAMES or not await asyncio.to_thread(path.is_file):
        raise NotFound(f"There is no log {name}; the logs are {', '.join(LOG_NAMES)}.")
    return FileResponse(path, media_type="text/plain; charset=utf-8")


ROUTES = [
    Route("/experiment/cluster-metadata", cluster_metadata, methods=["PUT"]),
    Route("/tensorboard", start_tensorboard, methods=["POST"]),
    Route("/tensorboard/{task}", unknown_task, methods=["GET", "PUT", "DELETE"]),
    Route("/tensorboard-tasks", no_tasks, methods=["GET"]),
    Route("/tensorboard-tasks", nothing_to_stop, methods=["DELETE"]),
]
LOG_ROUTES = [Route("/{name}", log_file, methods=["GET"])]
