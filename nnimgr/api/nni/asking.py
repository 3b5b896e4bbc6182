"""Helpers of NNI's routes: they find the experiment of a request, read its body, and build responses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from nnimgr.api.dependencies import ApiParts, NotFound
from nnimgr.api.models import JsonValue
from nnimgr.api.nni.javascript import parse, stringify
from nnimgr.api.nni.trials import ShownTrials, condemned
from nnimgr.core.running.runner import ExperimentRunner, RunnerClosed
from nnimgr.rules.facts import TrialStatus
from nnimgr.store.reader import ExperimentReader

__all__ = [
    "HEADERS",
    "JSON",
    "ReadOnly",
    "Target",
    "answer",
    "body_of",
    "built",
    "listing",
    "sober",
    "target",
]

JSON = "application/json; charset=utf-8"
HEADERS = {
    "access-control-allow-headers": "Origin, X-Requested-With, Content-Type, Accept",
    "access-control-allow-methods": "PUT,POST,GET,DELETE,OPTIONS",
}
_LARGE = 1 << 16  # bytes; a larger body is parsed in a thread
_SOBER: TypeAdapter[Any] = TypeAdapter(JsonValue)


class ReadOnly(Exception):
    """Error: the experiment is open only for viewing, so it cannot be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Experiment that a request is about."""

    parts: ApiParts
    id: str

    @property
    def reader(self) -> ExperimentReader:
        return self.parts.manager.reader(self.id)

    @property
    def runner(self) -> ExperimentRunner | None:
        """Runner of the experiment, or None if this server does not have the experiment open."""
        return self.parts.manager.find(self.id)

    def changeable(self, what: str) -> ExperimentRunner:
        """Return the runner of the experiment, which can change it. ``what``: NNI's words for the change,
        used in an error message.

        Raise ReadOnly, RequestRefused or UnknownExperiment.
        """
        if self.parts.manager.viewed(self.id):
            raise ReadOnly(f"Error: can not {what} in readonly mode!")
        return self.parts.manager.get(self.id)

    def condemned(self) -> Mapping[str, TrialStatus]:
        runner = self.runner
        return condemned(runner.state) if runner is not None else {}

    async def trials(self) -> ShownTrials:
        """Return the data that is needed to show the experiment's trials. Read the trials' rows only after
        this call.

        This call waits until the rows in the database are as new as the runner's state. Otherwise, a trial
        that was just stopped would be shown as running: its row still says RUNNING, but the state has already
        dropped the trial.
        """
        shown = ShownTrials(trial_paths=self.parts.trial_paths(self.id), condemned=self.condemned())
        if (runner := self.runner) is not None:
            with suppress(RunnerClosed):
                await runner.committed_after(runner.state.number - 1)
        return shown


def target(request: Request) -> Target:
    """Return the experiment that the request's path names. Raise NotFound if there is none.

    Without an experiment in the path, return the experiment that was created or resumed last.
    """
    parts: ApiParts = request.app.state.parts
    experiment_id = request.path_params.get("experiment", parts.manager.latest)
    if experiment_id is None:
        raise NotFound("There is no experiment on this server yet.")
    return Target(parts=parts, id=experiment_id)


async def body_of(request: Request) -> Any:
    """Return the JSON value of the request's body; an empty body is an empty object. Raise HTTPException."""
    body = await request.body()
    try:
        if len(body) > _LARGE:
            return await asyncio.to_thread(parse, body)
        return parse(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"The request's body is not JSON: {error}") from error


def sober(value: Any) -> Any:
    """Return a JSON value from a request. Raise HTTPException if it is nested too deeply or too large."""
    try:
        return _SOBER.validate_python(value)
    except ValidationError as error:
        raise HTTPException(400, str(error.errors()[0]["msg"])) from error


def answer(content: str | bytes | None = None, *, status: int = 200, media_type: str = JSON) -> Response:
    """Build a response with NNI's headers. Without ``content``, the response is empty, but its type is still
    JSON.
    """
    if content is None:
        return Response(status_code=status, headers={**HEADERS, "content-type": "application/json"})
    return Response(content, status_code=status, headers={**HEADERS, "content-type": media_type})


async def built(build: Callable[[], Any]) -> Response:
    """Call ``build`` in a thread, and return its value as a JSON response.

    The value is also serialised in the thread, so that other requests do not wait.
    """
    return answer(await asyncio.to_thread(lambda: stringify(build())))


async def listing(pages: Iterator[Iterable[str]]) -> Response:
    """Return a response with one JSON list of the items of all pages. The items are JSON texts.

    The pages are built in threads, one after the other, so that only one page is in memory.
    """
    chunks = _chunks(pages)
    first, second = await asyncio.to_thread(lambda: (next(chunks), next(chunks, None)))
    if second is None:
        return answer(first)
    rest = chain((first, second), chunks)
    return StreamingResponse(rest, headers={**HEADERS, "content-type": JSON})


def _chunks(pages: Iterator[Iterable[str]]) -> Iterator[bytes]:
    """Yield the text of a JSON list in chunks: at least one chunk, and exactly one for a short list."""
    held = b"["
    separator = b""
    for page in pages:
        items = ",".join(page).encode()
        if not items:
            continue
        if separator:
            yield held
            held = separator
        held += items
        separator = b","
    yield held + b"]"
