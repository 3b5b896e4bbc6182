"""What NNI's routes share: which experiment a request is about, its body, and how answers and errors look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from nnimgr.core.running.runner import ExperimentRunner
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
_LARGE = 1 << 16  # bytes; what is larger is parsed in a thread
_SOBER: TypeAdapter[Any] = TypeAdapter(JsonValue)


class ReadOnly(Exception):
    """The experiment is only viewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The experiment that a request is about."""

    parts: ApiParts
    id: str

    @property
    def reader(self) -> ExperimentReader:
        return self.parts.manager.reader(self.id)

    @property
    def runner(self) -> ExperimentRunner | None:
        """Its runner, if this server has it open."""
        return self.parts.manager.find(self.id)

    def changeable(self, what: str) -> ExperimentRunner:
        """Its runner, to ``what``, as NNI names it. Raises ReadOnly, RequestRefused, UnknownExperiment."""
        if self.parts.manager.viewed(self.id):
            raise ReadOnly(f"Error: can not {what} in readonly mode!")
        return self.parts.manager.get(self.id)

    def condemned(self) -> Mapping[str, TrialStatus]:
        runner = self.runner
        return condemned(runner.state) if runner is not None else {}

    def trials(self) -> ShownTrials:
        """How its trials are shown. Not in a thread."""
        return ShownTrials(places=self.parts.places(self.id), condemned=self.condemned())


def target(request: Request) -> Target:
    """The experiment that the path names, or the latest one. Raises NotFound."""
    parts: ApiParts = request.app.state.parts
    experiment_id = request.path_params.get("experiment", parts.manager.latest)
    if experiment_id is None:
        raise NotFound("There is no experiment on this server yet.")
    return Target(parts=parts, id=experiment_id)


async def body_of(request: Request) -> Any:
    """The JSON of the request's body; an empty one is an empty object. Raises HTTPException."""
    body = await request.body()
    try:
        if len(body) > _LARGE:
            return await asyncio.to_thread(parse, body)
        return parse(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"The request's body is not JSON: {error}") from error


def sober(value: Any) -> Any:
    """``value`` if it is not too deep and not too large. Raises HTTPException."""
    try:
        return _SOBER.validate_python(value)
    except ValidationError as error:
        raise HTTPException(400, str(error.errors()[0]["msg"])) from error


def answer(content: str | bytes | None = None, *, status: int = 200, media_type: str = JSON) -> Response:
    """An answer with NNI's headers; without content it is empty, and still said to be JSON."""
    if content is None:
        return Response(status_code=status, headers={**HEADERS, "content-type": "application/json"})
    return Response(content, status_code=status, headers={**HEADERS, "content-type": media_type})


async def built(build: Callable[[], Any]) -> Response:
    """The value that ``build`` makes, as JSON. All of it happens in a thread."""
    return answer(await asyncio.to_thread(lambda: stringify(build())))


async def listing(pages: Iterator[Iterable[str]]) -> Response:
    """A JSON list of all items of the pages, which are made one by one in threads and never held together."""
    chunks = _chunks(pages)
    first, second = await asyncio.to_thread(lambda: (next(chunks), next(chunks, None)))
    if second is None:
        return answer(first)
    rest = chain((first, second), chunks)
    return StreamingResponse(rest, headers={**HEADERS, "content-type": JSON})


def _chunks(pages: Iterator[Iterable[str]]) -> Iterator[bytes]:
    """At least one; a short list is one only."""
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
