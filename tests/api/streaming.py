"""Runs the application for answers that do not end, with a client that reads when the test wants it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from nnimgr.api.asgi import ASGIApp, Message, Scope
from tests.api.lab import BEARER

DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event."""

    kind: str
    id: int | None
    data: Any


class Stream:
    """An answer while it arrives. ``next_message`` takes one message; the sender waits until then."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self._stuck = asyncio.Event()
        self._messages: asyncio.Queue[Message] = asyncio.Queue(1)
        self._text = ""
        self._asked = False

    async def receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self._messages.full():
            self._stuck.set()
        await self._messages.put(message)

    async def next_message(self) -> Message:
        async with asyncio.timeout(DEADLINE_S):
            message = await self._messages.get()
        self._stuck.clear()
        return message

    async def until_stuck(self) -> None:
        """Return when a message waits because the last one was not taken."""
        async with asyncio.timeout(DEADLINE_S):
            await self._stuck.wait()

    async def drain(self) -> None:
        while True:
            await self._messages.get()

    async def text(self, wanted: str) -> str:
        """Read until this text has arrived, and return all text up to it."""
        while wanted not in self._text:
            message = await self.next_message()
            self._text += message.get("body", b"").decode(errors="replace")
            ended = message["type"] == "http.response.body" and not message["more_body"]
            assert not ended or wanted in self._text, self._text
        return self._text

    async def event(self) -> Event | None:
        """Return the next event, None if the answer has ended."""
        while True:
            block, found, rest = self._text.partition("\n\n")
            if not found:
                message = await self.next_message()
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    return None
                self._text += message.get("body", b"").decode()
                continue
            self._text = rest
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "event" in fields:
                number = int(fields["id"]) if "id" in fields else None
                return Event(fields["event"], number, json.loads(fields["data"]))

    async def events(self, up_to: int) -> list[Event]:
        """Return the events up to the one with this number."""
        found: list[Event] = []
        while not found or found[-1].id != up_to:
            event = await self.event()
            assert event is not None
            found.append(event)
        return found


@asynccontextmanager
async def opened(
    app: ASGIApp, target: str, *, headers: Mapping[str, str] = BEARER
) -> AsyncGenerator[Stream, None]:
    """GET ``target``.

    When the block ends, the client disconnects, and the application must end its answer.
    """
    address = urlsplit(target)
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": address.path,
        "raw_path": address.path.encode(),
        "query_string": address.query.encode(),
        "root_path": "",
        "headers": [
            (b"host", b"localhost:8080"),
            *((name.lower().encode(), value.encode()) for name, value in headers.items()),
        ],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8080),
    }
    stream = Stream()
    serving = asyncio.ensure_future(app(scope, stream.receive, stream.send))
    try:
        yield stream
    finally:
        stream.gone.set()
        draining = asyncio.create_task(stream.drain())
        try:
            async with asyncio.timeout(DEADLINE_S):
                await serving
        finally:
            draining.cancel()
