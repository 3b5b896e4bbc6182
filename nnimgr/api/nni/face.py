"""NNI's routes as one application, with NNI's format of errors: ``{"error": message}``."""

from __future__ import annotations

import re
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount

from nnimgr.api.asgi import ASGIApp, Receive, Scope, Send
from nnimgr.api.asgi import answer as plain
from nnimgr.api.dashboard import page
from nnimgr.api.dependencies import ApiParts, NotFound
from nnimgr.api.limits import BodyLimit
from nnimgr.api.nni import experiment_routes, other_routes, tensorboard_routes, trial_routes
from nnimgr.api.nni.asking import ReadOnly, answer
from nnimgr.api.nni.javascript import stringify
from nnimgr.config import ConfigError
from nnimgr.core.managing.manager import UnknownExperiment
from nnimgr.core.running.new_trials import BudgetSpent
from nnimgr.core.running.requests import RequestRefused, UnknownTrial
from nnimgr.core.running.runner import RunnerClosed
from nnimgr.home import HomeError
from nnimgr.store.errors import StoreError
from training_services.base import ServiceError

__all__ = ["beside"]

_NNIS = re.compile(r"(/e/(?P<experiment>[^/]+))?/(api/v1/nni|logs)(/|$)")
_MOST_BODY = 50 << 20  # NNI's limit
_LONGEST_TEXT = 4000  # in characters, of an error, which may repeat the request's text
_SAFE_METHODS = frozenset({"GET", "HEAD"})

# NNI answers every refusal with status 500. Status 503 is for what the server cannot do at present.
_STATUS: dict[type[Exception], int] = {
    NotFound: 404,
    UnknownExperiment: 404,
    UnknownTrial: 404,
    ConfigError: 400,
    ValueError: 400,
    ReadOnly: 500,
    RunnerClosed: 503,
    RequestRefused: 500,
    ClientDisconnect: 499,  # no client is connected that could read the status
    StoreError: 503,
    HomeError: 503,
    ServiceError: 503,
    FileNotFoundError: 404,  # an experiment that is being deleted
    OSError: 503,
}


def beside(app: ASGIApp, parts: ApiParts) -> ASGIApp:
    """Return an application that serves NNI's routes, and passes all other requests on to ``app``.

    If the server has a URL prefix, NNI's routes are only below that prefix.
    """
    face = BodyLimit(_application(parts), most=_MOST_BODY)
    prefix = f"/{parts.url_prefix}" if parts.url_prefix else ""
    outside = f'Outside prefix "{prefix}"'.encode()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path.startswith(prefix) and (found := _NNIS.match(path, len(prefix))):
            if found["experiment"] is not None:
                await parts.manager.look_for(found["experiment"])
            path = path.removeprefix(prefix).rstrip("/")  # NNI accepts a slash at the end
            await face({**scope, "path": path}, receive, send)
        elif prefix and _NNIS.match(path):
            await plain(send, 404, body=outside, content_type=b"text/html; charset=utf-8")
        else:
            await app(scope, receive, send)

    return application


def _application(parts: ApiParts) -> Starlette:
    routes = [
        *experiment_routes.ROUTES,
        *trial_routes.ROUTES,
        *tensorboard_routes.ROUTES,
        *other_routes.ROUTES,
    ]
    app = Starlette(
        routes=[
            Mount(f"{experiment}{place}", routes=found)
            for experiment in ("", "/e/{experiment}")
            for place, found in (("/api/v1/nni", routes), ("/logs", other_routes.LOG_ROUTES))
        ]
    )
    app.router.redirect_slashes = False
    app.state.parts = parts
    for kind in _STATUS:
        app.add_exception_handler(kind, _failed)
    app.add_exception_handler(BudgetSpent, _spent)
    app.add_exception_handler(HTTPException, _http_failed)
    app.add_exception_handler(Exception, _crashed)
    return app


async def _failed(request: Request, failure: Exception) -> Response:
    status = next(code for kind, code in _STATUS.items() if isinstance(failure, kind))
    if isinstance(failure, ConfigError):
        return _error(status, "; ".join(str(problem) for problem in failure.problems))
    return _error(status, str(failure))


async def _spent(request: Request, failure: Exception) -> Response:
    return _error(500, "reach maxTrialNum")  # clients recognise this case by NNI's words


async def _http_failed(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    if failure.status_code not in (404, 405):
        return _error(failure.status_code, failure.detail)
    if request.method in _SAFE_METHODS:  # NNI's server answers every unknown address with its page
        return await page(request)
    return answer("Not Found", status=404, media_type="text/plain; charset=utf-8")


async def _crashed(request: Request, failure: Exception) -> Response:
    """Answer a request that failed with an unexpected error.

    After this, Starlette raises the error again and uvicorn logs its traceback.
    """
    return _error(500, f"The server failed with {type(failure).__name__}; see the server's log.")


def _error(status: int, sentence: str) -> Response:
    if len(sentence) > _LONGEST_TEXT:
        sentence = f"{sentence[:_LONGEST_TEXT]}..."
    return answer(stringify({"error": sentence or HTTPStatus(status).phrase}), status=status)
