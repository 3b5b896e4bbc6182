"""The event stream (server-sent events), and how streams end when the server does.

A stream is a cursor over the facts in the database: it reads pages after its cursor, and waits for the runner
to commit when there is no more. It holds one page at a time and sends it before it reads the next, so a client
that does not read costs one page and delays nobody.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from nnimgr.api.convert import event_of
from nnimgr.core.facts import Recorded

if TYPE_CHECKING:
    from nnimgr.core.runner import ExperimentRunner
    from nnimgr.store.reader import ExperimentReader

__all__ = ["event_stream", "until"]

PAGE = 500
HEARTBEAT_S = 15.0
_GATHER_S = 0.02  # a busy experiment commits up to 1,000 times a second; a stream reads at most 50 times


async def event_stream(
    reader: ExperimentReader,
    *,
    live: Callable[[], ExperimentRunner | None],
    after: int,
    heartbeat_s: float = HEARTBEAT_S,
) -> AsyncGenerator[bytes, None]:
    """All facts with numbers above ``after``, then those to come; ends after a stopped experiment's last.

    ``live`` gives the experiment's runner while it has one.
    """
    loop = asyncio.get_running_loop()
    cursor = after
    yield b"retry: 1000\n\n"
    while True:
        runner = live()  # asked before the reading: what it commits until then will be read
        read_at = loop.time()
        text, count, cursor = await asyncio.to_thread(_read_page, reader, cursor)
        if text:
            yield text
        if count == PAGE:
            continue
        if runner is None:
            yield await asyncio.to_thread(_closed, reader)
            return
        while True:
            try:
                async with asyncio.timeout(heartbeat_s):
                    await runner.committed_after(cursor)
                    break
            except TimeoutError:
                yield b": still here\n\n"
        await asyncio.sleep(read_at + _GATHER_S - loop.time())


async def until(
    closing: asyncio.Event, chunks: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """``chunks``, until they end or ``closing`` is set."""
    closed = asyncio.create_task(closing.wait(), name="stream:closing")
    async with aclosing(chunks):
        step: asyncio.Task[bytes | None] | None = None
        try:
            while not closing.is_set():
                step = asyncio.create_task(_next(chunks), name="stream:next")
                await asyncio.wait({step, closed}, return_when=asyncio.FIRST_COMPLETED)
                chunk = step.result() if step.done() else None
                if chunk is None:
                    return
                yield chunk
        finally:
            closed.cancel()
            if step is not None and not step.done():
                step.cancel()  # a generator that still runs cannot be closed
                await asyncio.wait({step})


async def _next(chunks: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(chunks, None)


def _read_page(reader: ExperimentReader, after: int) -> tuple[bytes, int, int]:
    """The text of a page, how many facts it has, and the cursor behind it."""
    page = reader.facts(after, PAGE)
    return b"".join(map(_event, page)), len(page), page[-1].number if page else after


def _event(recorded: Recorded) -> bytes:
    data = json.dumps(event_of(recorded), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    kind = type(recorded.fact).__name__
    return f"id: {recorded.number}\nevent: {kind}\ndata: {data}\n\n".encode()


def _closed(reader: ExperimentReader) -> bytes:
    row = reader.experiment()
    data = json.dumps({"status": str(row.status), "reason": row.reason})
    return f"event: closed\ndata: {data}\n\n".encode()
