"""Event streams of the server and of an experiment."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query
from fastapi.responses import StreamingResponse

from nnimgr.api.dependencies import ExperimentId, Parts, Reader, refusals, streams
from nnimgr.api.routing import Router
from nnimgr.api.streams import changes_stream, event_stream, until

router = Router(prefix="/api/v1", tags=["events"])

_LAST_EVENTS_S = 1.0  # time for the last events of an experiment while the server shuts down


@router.get("/events", response_class=StreamingResponse, responses=streams("text/event-stream"))
async def follow_changes(parts: Parts) -> StreamingResponse:
    """Stream an event ``changed`` whenever an experiment of this server has new facts.

    The event has the experiment's id and the number of its last fact. To miss nothing, read the list of
    experiments after this answer has begun, and again after a reconnect.
    """
    chunks = changes_stream(parts.manager.changes.follow())
    return StreamingResponse(until(parts.shutdown.closing, chunks), media_type="text/event-stream")


@router.get(
    "/experiments/{id}/events",
    response_class=StreamingResponse,
    responses=streams("text/event-stream") | refusals(404, 422),
)
async def follow_events(
    parts: Parts,
    experiment_id: ExperimentId,
    reader: Reader,
    after: Annotated[int, Query(ge=0, lt=2**63, description="number of a fact: send only later facts")] = 0,
    last_event_id: Annotated[int | None, Header(alias="Last-Event-ID", ge=0, lt=2**63)] = None,
) -> StreamingResponse:
    """Stream every fact of the experiment as a server-sent event, with its number, its kind, and its fields
    as JSON.

    To lose no event, reconnect with the number of the last event. The event ``closed`` ends the stream of an
    experiment that is stopped or that this server does not run.
    """
    chunks = event_stream(
        reader,
        find=lambda: parts.manager.find(experiment_id),
        after=after if last_event_id is None else last_event_id,
    )
    # A server that leaves because its last experiment has ended tells the end first.
    sent = until(parts.shutdown.closing, chunks, last_s=_LAST_EVENTS_S)
    return StreamingResponse(sent, media_type="text/event-stream")
