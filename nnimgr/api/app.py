"""ASGI application of the server. A request passes the health probes, then authentication, then FastAPI.

Keepers do not use this application: ``nnimgr.server.doors`` opens separate sockets and ports for them. The
table ``_STATUS`` gives each type of error its HTTP status.
"""

from __future__ import annotations

import asyncio
import http
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from nnimgr.analysis.errors import AnalysisFailed, BadQuestion
from nnimgr.api import dashboard
from nnimgr.api.asgi import ASGIApp, Receive, Scope, Send, refuse
from nnimgr.api.auth import AllowedHosts, Authentication, FailureThrottle
from nnimgr.api.dependencies import ApiParts, NotFound
from nnimgr.api.invalid import problems
from nnimgr.api.limits import BodyLimit, ReadableAnswers
from nnimgr.api.models import ErrorAnswer, ErrorBody
from nnimgr.api.nni import face as nni
from nnimgr.api.pages import Page
from nnimgr.api.probes import LIVE, READY, answer_probe
from nnimgr.api.routes import (
    analysis,
    columns,
    configs,
    events,
    exchange,
    experiments,
    feed,
    hosts,
    logs,
    machines,
    server,
    tensorboards,
    trial_export,
    trial_life,
    trial_notes,
    trials,
    usage,
    views,
)
from nnimgr.config import ConfigError
from nnimgr.core.managing.machines import UnknownMachine
from nnimgr.core.managing.manager import UnknownExperiment
from nnimgr.core.running.requests import RequestRefused, UnknownTrial
from nnimgr.core.running.runner import RunnerClosed
from nnimgr.home import HomeError
from nnimgr.store.annotations import MissingTrial
from nnimgr.store.errors import StoreError
from nnimgr.store.views import MissingView, ViewRefused
from nnimgr.tensorboard.process import TensorBoardMissing
from nnimgr.tensorboard.tasks import TensorBoardRefused, UnknownTask
from training_services.base import ServiceError

__all__ = ["create_app"]

_LEAVING = ((b"connection", b"close"), (b"retry-after", b"1"))
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_PROBLEMS = 20  # largest number of problems in one answer
_MOST_VALID = 100  # largest number of valid values that a problem lists
_LONGEST_TEXT = 1000  # in characters, of a sentence, which may repeat the request's text

_STATUS: dict[type[Exception], int] = {
    server.LoginRefused: 401,
    NotFound: 404,
    UnknownExperiment: 404,
    UnknownTrial: 404,
    UnknownMachine: 404,
    MissingTrial: 404,
    MissingView: 404,
    ViewRefused: 409,
    UnknownTask: 404,
    TensorBoardMissing: 409,
    TensorBoardRefused: 409,
    RunnerClosed: 503,
    RequestRefused: 409,
    StoreError: 503,
    AnalysisFailed: 500,
    ClientDisconnect: 499,  # no client is connected that could read the status
    HomeError: 503,
    ServiceError: 503,
    FileNotFoundError: 404,
    OSError: 503,
}

_ABOUT = (
    "Manage hyper-parameter experiments. Requests need the server's token, as a bearer token or as the "
    "password of HTTP basic authentication, except those of the server's own user on its machine, unless the "
    "server runs with --require-token. /healthz (the server runs) and /readyz (it accepts requests) answer "
    "everybody."
)


def create_app(parts: ApiParts, *, hosts: AllowedHosts) -> ASGIApp:
    """Build the server's ASGI application: probes, authentication, NNI's routes, the REST API and the
    dashboard.
    """
    guarded = Authentication(
        nni.beside(BodyLimit(api(parts)), parts),
        credentials=parts.credentials,
        hosts=hosts,
        throttle=FailureThrottle(),
        login_page=Page("login"),
    )

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await guarded(scope, receive, send)
        elif scope["path"] in (LIVE, READY):
            await answer_probe(scope, send, leaving=parts.shutdown.closing.is_set())
        elif parts.shutdown.closing.is_set():
            await refuse(send, 503, sentence="The server is leaving.", headers=_LEAVING)
        elif scope["method"] in _SAFE_METHODS:
            await guarded(scope, receive, send)
        else:
            with parts.shutdown.change():
                await guarded(scope, receive, send)

    return ReadableAnswers(application)


def api(parts: ApiParts) -> FastAPI:
    """Build the FastAPI application with the REST API and the dashboard. It does no authentication itself."""
    app = _routed(parts.version)
    app.state.parts = parts
    app.router.routes += dashboard.router.routes
    docs = Page("docs")

    @app.get("/docs", include_in_schema=False)
    async def docs_page() -> Response:
        return Response(docs.body, media_type="text/html", headers={"content-security-policy": docs.policy})

    @app.get("/api/v1/openapi.json", include_in_schema=False)
    async def description() -> Response:
        """Return the OpenAPI document.

        The document is built at the first request, in a thread, so that other requests do not wait for it.
        """
        return Response(await asyncio.to_thread(document), media_type="application/json")

    @cache
    def document() -> bytes:
        return json.dumps(app.openapi()).encode()

    for kind in _STATUS:
        app.add_exception_handler(kind, _failed)
    app.add_exception_handler(ConfigError, _bad_config)
    app.add_exception_handler(BadQuestion, _bad_question)
    app.add_exception_handler(RequestValidationError, _bad_request)
    app.add_exception_handler(HTTPException, _http_failed)
    app.add_exception_handler(Exception, _crashed)
    return app


def describe() -> dict[str, Any]:
    """Return the OpenAPI document without the version number."""
    return _routed("0").openapi()


def _routed(version: str) -> FastAPI:
    app = FastAPI(
        title="nnimgr",
        version=version,
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    for module in (
        experiments,
        trial_export,
        trials,
        trial_life,
        exchange,
        trial_notes,
        views,
        columns,
        analysis,
        machines,
        events,
        configs,
        feed,
        logs,
        hosts,
        usage,
        server,
        tensorboards,
    ):
        # Not include_router(), which builds every route again: it would slow the start or the first request.
        app.router.routes += module.router.routes
    return app


async def _failed(request: Request, failure: Exception) -> Response:
    status = next(code for kind, code in _STATUS.items() if isinstance(failure, kind))
    sentence = str(failure)
    if isinstance(failure, OSError) and failure.filename is not None:
        sentence = f"{failure.filename}: {failure.strerror}."
    return _error(status, sentence)


async def _bad_config(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, ConfigError)
    problems = [problem.plain() for problem in failure.problems]
    return _error(400, "The configuration is not valid.", problems=problems)


async def _bad_question(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, BadQuestion)
    problem: dict[str, Any] = {"field": failure.field, "message": failure.message}
    if failure.position is not None:
        problem["position"] = failure.position
    return _error(422, f"{failure.field}: {failure.message}", problems=[problem])


async def _bad_request(request: Request, failure: Exception) -> Response:
    """Answer a request whose parameters or body are not valid."""
    assert isinstance(failure, RequestValidationError)
    sentence = "The request is not valid for this route."
    return _error(422, sentence, problems=problems(failure.errors()))


async def _http_failed(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    sentence = failure.detail
    if failure.status_code == 404:
        if (page := await dashboard.missing_page(request)) is not None:
            return page
        sentence = f"There is no {request.url.path} here."
    elif failure.status_code == 405:
        sentence = f"{request.url.path} does not accept {request.method}."
    return _error(failure.status_code, sentence, headers=failure.headers)


async def _crashed(request: Request, failure: Exception) -> Response:
    """Answer a request that failed with an unexpected error.

    After this, Starlette raises the error again and uvicorn logs its traceback.
    """
    return _error(500, f"The server failed with {type(failure).__name__}; see the server's log.")


def _error(status: int, sentence: str, *, problems: Any = None, headers: Any = None) -> Response:
    """Build an error answer. Its size is bounded, however large the request was."""
    if problems is not None and len(problems) > _MOST_PROBLEMS:
        left_out = len(problems) - _MOST_PROBLEMS
        sentence = f"{sentence} The first {_MOST_PROBLEMS} problems are listed; there are {left_out} more."
        problems = problems[:_MOST_PROBLEMS]
    answer = ErrorAnswer(
        error=ErrorBody(
            message=_short(sentence) or _phrase(status),
            problems=None if problems is None else [_short_problem(problem) for problem in problems],
        )
    )
    return JSONResponse(answer.model_dump(exclude_none=True), status_code=status, headers=headers)


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:  # such as 499, which is no standard status
        return "No answer"


def _short_problem(problem: Mapping[str, Any]) -> Any:
    return {
        key: _short(value)
        if isinstance(value, str)
        else [_short(str(item)) for item in value[:_MOST_VALID]]
        if isinstance(value, list)
        else value
        for key, value in problem.items()
    }


def _short(text: str) -> str:
    """Return ``text``, cut if it is too long. Characters that UTF-8 cannot encode become escapes."""
    cut = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
    return cut.encode(errors="backslashreplace").decode()
