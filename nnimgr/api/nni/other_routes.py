"""NNI's routes for features that nnimgr has in another form, or does not have."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from nnimgr.api.dependencies import NotFound
from nnimgr.api.nni.asking import answer, body_of, target
from nnimgr.core.managing.experiment_log import LOG_NAMES

__all__ = ["LOG_ROUTES", "ROUTES"]


async def cluster_metadata(request: Request) -> Response:
    """Accept settings of NNI's first configuration format, and do nothing with them.

    The client sends these settings again when it creates the experiment.
    """
    if not isinstance(await body_of(request), dict):
        raise HTTPException(400, "The body is not an object.")
    return answer()


async def log_file(request: Request) -> Response:
    """Return a log file of the experiment. Raise NotFound if nothing was written to it."""
    about, name = target(request), request.path_params["name"]
    path = about.parts.manager.directory(about.id) / "log" / name
    if name not in LOG_NAMES or not await asyncio.to_thread(path.is_file):
        raise NotFound(f"There is no log {name}; the logs are {', '.join(LOG_NAMES)}.")
    return FileResponse(path, media_type="text/plain; charset=utf-8")


ROUTES = [
    Route("/experiment/cluster-metadata", cluster_metadata, methods=["PUT"]),
]
LOG_ROUTES = [Route("/{name}", log_file, methods=["GET"])]
