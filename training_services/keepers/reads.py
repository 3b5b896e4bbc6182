"""Reads files of a host through its keeper: the keeper makes an HTTP call that delivers the data to the
reader.

Only a few pieces are held in memory, so the keeper sends no faster than the reader takes the data.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from training_services.base import FileListing, ServiceUnavailable
from training_services.logs import listing_of
from trial_keeper import wire
from trial_keeper.machine.untrusted_files import Listed

__all__ = ["ReadStream", "read_listing", "receive_read"]

OPEN_S = 15.0  # limit in seconds for the keeper to start sending
SILENT_S = 3 * wire.WORD_S  # limit in seconds between two bytes
PIECES = 8  # most pieces held in memory; a piece is what one receive of the connection returns
_LIMITS = {wire.DATA: 2**32, wire.WORD: 0, wire.END: 1 << 16}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class ReadStream:
    """Stream that passes a file's data from the keeper's call to the reader.

    The keeper's call uses ``put``, the reader uses ``chunks``. Either may come first.
    """

    def __init__(self, keeper_id: str) -> None:
        self.end: Mapping[str, Any] = {}  # content of the last piece
        self.keeper_id = keeper_id
        self._opened = asyncio.Event()
        self._news = asyncio.Event()  # wakes the reader
        self._room = asyncio.Event()  # wakes the keeper's call
        self._pieces: deque[bytes] = deque()
        self._failure: Exception | None = None
        self._over = False  # True: no more data will come
        self._left = False  # True: the reader no longer wants data
        self._wait: asyncio.Timeout | None = None  # timeout of the call for its next bytes

    # ---- the reader ---------------------------------------------------------------------------------------

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the file's data in pieces until its end.

        Raises the error with which the read ended, or ServiceUnavailable if the keeper does not call.
        """
        try:
            async with asyncio.timeout(OPEN_S):
                await self._opened.wait()
        except TimeoutError:
            raise ServiceUnavailable(
                f"keeper {self.keeper_id} was asked for the file, but has not answered for {OPEN_S:g} s"
            ) from None
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._room.set()
                yield piece
            if self._over:
                if self._failure is not None:
                    raise self._failure
                return
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """End the transfer, because the reader wants no more data.

        The keeper's call is answered, and the keeper stops reading the file.
        """
        self._left = True
        self._pieces.clear()
        self._room.set()
        if self._wait is not None:
            self._wait.reschedule(asyncio.get_running_loop().time())

    # ---- the call -----------------------------------------------------------------------------------------

    def open(self) -> bool:
        """Accept the keeper's call that delivers the file.

        Return False if another call was accepted before, or if the transfer has ended.
        """
        if self._opened.is_set() or self._over or self._left:
            return False
        self._opened.set()
        return True

    async def put(self, piece: bytes) -> None:
        """Add a piece of data for the reader, but first wait while too many pieces are unread.

        The piece is dropped if the reader wants no more data.
        """
        while len(self._pieces) >= PIECES and not self._left:
            self._room.clear()
            await self._room.wait()
        if not self._left:
            self._pieces.append(piece)
            self._news.set()

    def finish(self, failure: Exception | None) -> None:
        """End the stream with an error, or without one (None). Only the first call has an effect."""
        if not self._over:
            self._over, self._failure = True, failure
            self._opened.set()
            self._news.set()

    async def next_message(self, receive: Receive) -> Message | None:
        """Return the next ASGI message of the keeper's call.

        Return None if the connection has ended, or if the reader wants no more data.
        """
        try:
            async with asyncio.timeout(SILENT_S) as self._wait:
                if self._left:
                    return None
                message = await receive()
        except TimeoutError:
            if not self._left:
                self.lose(
                    f"keeper {self.keeper_id} has sent nothing for {SILENT_S:g} s while it read the file"
                )
            return None
        finally:
            self._wait = None
        if message["type"] == "http.disconnect":
            self.lose(f"keeper {self.keeper_id} was cut off while it read the file")
            return None
        return message

    def lose(self, sentence: str) -> None:
        """End the stream with an error that says this sentence."""
        self.finish(ServiceUnavailable(sentence))


async def receive_read(stream: ReadStream, receive: Receive) -> bool:
    """Receive the body of a keeper's call that delivers a file, and pass it on to the stream.

    Return False if the body ended too early. Then the connection must be closed.
    """
    kind, head, end, left = b"", b"", b"", 0
    while (message := await stream.next_message(receive)) is not None:
        content: bytes = message.get("body", b"")
        at = 0
        while at < len(content):
            if left == 0:
                piece = content[at : at + wire.PIECE_HEAD - len(head)]
                at += len(piece)
                head += piece
                if len(head) < wire.PIECE_HEAD:
                    break
                kind, left, head = head[:1], int.from_bytes(head[1:], "big"), b""
                if kind not in _LIMITS or left > _LIMITS[kind]:
                    stream.lose(f"keeper {stream.keeper_id} has sent an invalid answer")
                    return False
                continue
            piece = content[at : at + left]
            at += len(piece)
            left -= len(piece)
            if kind == wire.DATA:
                await stream.put(piece)
            elif kind == wire.END:
                end += piece
                if left == 0:
                    _finish(stream, end)
                    return True
        if not message.get("more_body", False):
            stream.lose(f"keeper {stream.keeper_id} was cut off while it read the file")
            return False
    return False


def _finish(stream: ReadStream, end: bytes) -> None:
    try:
        said = json.loads(end)
        kind, sentence, complete = said["error"], str(said["sentence"]), bool(said["complete"])
    except (ValueError, KeyError, TypeError):
        stream.lose(f"keeper {stream.keeper_id} has sent an invalid answer")
        return
    stream.end = {**said, "complete": complete}
    if kind is None:
        stream.finish(None)
    elif kind == wire.MISSING:
        stream.finish(FileNotFoundError(sentence))
    elif kind == wire.BAD_NAME:
        stream.finish(ValueError(sentence))
    else:
        stream.finish(ServiceUnavailable(f"keeper {stream.keeper_id} cannot read the file: {sentence}"))


def read_listing(text: bytes, *, complete: bool) -> FileListing:
    """Parse a list of files as the keeper sends it. Raises ServiceUnavailable if it is malformed."""
    try:
        found = [
            Listed(str(path), int(size), float(at)) for path, size, at in map(json.loads, text.splitlines())
        ]
        return listing_of(found, complete=complete)
    except (ValueError, TypeError, OverflowError, OSError) as error:
        raise ServiceUnavailable(f"the keeper's list of the files cannot be read: {error}") from error
