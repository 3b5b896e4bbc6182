"""Event streams (server-sent events), and their end when the server shuts down.

The stream of an experiment sends the facts in the database. It reads a page of facts after the last fact that
it has sent and, if there are no more, waits until the runner commits new facts. It sends a page before it
reads the next page. So a client that does not read costs the memory of one page and delays no other client.
The server's own stream only reports which experiments have new facts.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi.responses import StreamingResponse
from starlette.types import Send

from nnimgr.api.convert import event_of
from nnimgr.core.managing.experiments import UnknownExperiment
from nnimgr.core.running.runner import RunnerClosed
from nnimgr.rules.facts import ExperimentStatus, Recorded
from nnimgr.store.errors import StoreError
from training_services.base import ServiceError, ServiceUnavailable

if TYPE_CHECKING:
    from nnimgr.core.managing.change_feed import Follower
    from nnimgr.core.running.runner import ExperimentRunner
    from nnimgr.store.reader import ExperimentReader

__all__ = ["PartedResponse", "changes_stream", "event_stream", "until", "whole"]

logger = logging.getLogger(__name__)

PAGE = 500
HEARTBEAT_S = 15.0
# Seconds between two reads. A busy experiment commits up to 1,000 times a second; a stream reads at most 50.
_GATHER_S = 0.02


async def event_stream(
    reader: ExperimentReader,
    *,
    find: Callable[[], ExperimentRunner | None],
    after: int,
    heartbeat_s: float = HEARTBEAT_S,
) -> AsyncGenerator[bytes, None]:
    """Yield all facts with numbers above ``after`` as events, then new facts until the experiment is stopped.

    ``find`` returns the experiment's runner, or None if this server does not run the experiment. The stream
    also ends if the experiment is deleted.
    """
    loop = asyncio.get_running_loop()
    cursor = after
    yield b"retry: 1000\n\n"
    while True:
        # Find the runner before reading. Otherwise the last commits of a runner that ends could be missed.
        runner = find()
        read_at = loop.time()
        try:
            page = await asyncio.to_thread(_read_page, reader, cursor, served=runner is not None)
        except FileNotFoundError:
            return
        cursor = page.cursor
        if page.text:
            yield page.text
        if page.last or runner is None:
            return
        if page.full:
            continue
        while not await _has_news(runner, cursor, heartbeat_s):
            yield b": still here\n\n"
        await asyncio.sleep(read_at + _GATHER_S - loop.time())


async def changes_stream(
    follower: Follower, *, heartbeat_s: float = HEARTBEAT_S
) -> AsyncGenerator[bytes, None]:
    """Yield an event for each experiment that has new facts, with the number of its last fact.

    The stream does not repeat earlier events: a client that reconnects reads the list of experiments again.
    Several changes of one experiment may become one event.
    """
    yield b"retry: 1000\n\n"
    while True:
        try:
            async with asyncio.timeout(heartbeat_s):
                moved = await follower.take()
        except TimeoutError:
            yield b": still here\n\n"
            continue
        yield b"".join(_changed(experiment_id, number) for experiment_id, number in moved.items())
        await asyncio.sleep(_GATHER_S)


def _changed(experiment_id: str, number: int) -> bytes:
    data = json.dumps({"experiment": experiment_id, "number": number})
    return f"event: changed\ndata: {data}\n\n".encode()


async def _has_news(runner: ExperimentRunner, cursor: int, seconds: float) -> bool:
    """Wait until a fact after the cursor is committed or the runner has ended, and return True.

    Return False if neither happens within ``seconds``.
    """
    try:
        async with asyncio.timeout(seconds):
            await runner.committed_after(cursor)
    except TimeoutError:
        return False
    except RunnerClosed:
        pass
    return True


class PartedResponse(StreamingResponse):
    """HTTP response that is sent in parts, which are read one after the other.

    If a later part cannot be read, for example because its experiment has just been deleted, the connection
    is cut off, so that the client notices.
    """

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except (ServiceError, StoreError, UnknownExperiment, FileNotFoundError) as error:
            logger.warning("an answer was only sent in part: %s", error)


async def whole(closing: asyncio.Event, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield all ``chunks`` of a stream. Raise ServiceUnavailable if the server shuts down (``closing``)
    before the end.
    """
    ended = False

    async def marked() -> AsyncGenerator[bytes, None]:
        nonlocal ended
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
        ended = True

    async with aclosing(until(closing, marked())) as sent:
        async for chunk in sent:
            yield chunk
    if not ended:
        raise ServiceUnavailable("the server is shutting down")


async def until(
    closing: asyncio.Event, chunks: AsyncGenerator[bytes, None], *, last_s: float = 0.0
) -> AsyncGenerator[bytes, None]:
    """Yield the ``chunks`` of a stream until they end or the server shuts down (``closing``).

    ``last_s``: seconds after the beginning of the shutdown in which the stream may still end by itself.
    """

    async def over() -> None:
        await closing.wait()
        await asyncio.sleep(last_s)

    closed = asyncio.create_task(over(), name="stream:closing")
    async with aclosing(chunks):
        step: asyncio.Task[bytes | None] | None = None
        try:
            while not closed.done():
                step = asyncio.create_task(_next(chunks), name="stream:next")
                await asyncio.wait({step, closed}, return_when=asyncio.FIRST_COMPLETED)
                chunk = step.result() if step.done() else None
                if chunk is None:
                    return
                yield chunk
        finally:
            closed.cancel()
            if step is not None:
                if not step.done():
                    step.cancel()  # a running generator cannot be closed
                    await asyncio.wait({step})
                if not step.cancelled():
                    step.exception()  # retrieve the error, because there may be no task left to handle it


async def _next(chunks: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(chunks, None)


@dataclass(frozen=True, slots=True)
class _Page:
    """Page of an event stream: the text of some events, and the number of the last fact in them (``cursor``).

    ``full``: there may be more facts. ``last``: the text contains the event that ends the stream.
    """

    text: bytes
    cursor: int
    full: bool
    last: bool


def _read_page(reader: ExperimentReader, after: int, *, served: bool) -> _Page:
    facts = reader.facts(after=after, limit=PAGE)
    text = b"".join(map(_event, facts))
    cursor = facts[-1].number if facts else after
    if len(facts) == PAGE:
        return _Page(text, cursor, full=True, last=False)
    row = reader.experiment()
    last = cursor >= row.last_number and (row.status is ExperimentStatus.STOPPED or not served)
    if last:
        data = json.dumps({"status": row.status, "reason": row.reason})
        text += f"event: closed\ndata: {data}\n\n".encode()
    return _Page(text, cursor, full=False, last=last)


def _event(recorded: Recorded) -> bytes:
    data = json.dumps(event_of(recorded), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    kind = type(recorded.fact).__name__
    return f"id: {recorded.number}\nevent: {kind}\ndata: {data}\n\n".encode()
