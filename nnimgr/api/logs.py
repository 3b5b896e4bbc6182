"""Logs as streams of bytes: all of it, or its last lines, then whatever follows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import cast

from trial_keeper.plain import PlainFile

__all__ = ["LogName", "ReadLog", "begun", "log_stream", "plain_log"]

LOOK_S = 0.25  # how often a log on this machine is looked at, while somebody follows it

ReadLog = Callable[[bool, int | None], AsyncIterator[bytes]]
"""Reads a file: whether it goes on until the attempt has ended; only so many last lines of what is there."""


class LogName(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    TRIAL_LOG = "trial.log"


async def log_stream(read: ReadLog, *, follow: bool, tail: int | None) -> AsyncGenerator[bytes, None]:
    """The chunks to send. ``tail``: only so many last lines of what is there now.

    The file is looked at before this returns, so that FileNotFoundError comes before the first byte is sent.
    """
    if not follow:
        return await begun(read(False, tail))
    async with _closing(read(False, 0)) as chunks:  # following would not come back before it is written to
        await anext(chunks, b"")
    return _generator(read(True, tail))


async def begun(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The same chunks, after the first is there: what is in the way of it is raised here."""
    source = _generator(chunks)
    return _after(await anext(source, b""), source)


async def _after(first: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks) as source:
        if first:
            yield first
        async for chunk in source:
            yield chunk


def _generator(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    return cast("AsyncGenerator[bytes, None]", chunks)  # services give asynchronous generators


def _closing(chunks: AsyncIterator[bytes]) -> aclosing[AsyncGenerator[bytes, None]]:
    return aclosing(_generator(chunks))


async def plain_log(
    root: Path, parts: Sequence[str], name: str, *, follow: bool, tail: int | None
) -> AsyncGenerator[bytes, None]:
    """Chunks of a log on this machine; with ``follow`` for as long as somebody reads, also when the log goes
    on in a new file of the same name.

    Raises FileNotFoundError (also for a link or a pipe).
    """
    file = await asyncio.to_thread(PlainFile, str(root), parts, name)
    try:
        if tail is not None:
            await asyncio.to_thread(file.seek_tail, tail)
        while True:
            while chunk := await asyncio.to_thread(file.read):
                yield chunk
            if not follow:
                return
            await asyncio.sleep(LOOK_S)
            with contextlib.suppress(FileNotFoundError):  # it is being replaced
                newer = await asyncio.to_thread(PlainFile, str(root), parts, name)
                if newer.identity == file.identity:
                    newer.close()
                    continue
                while chunk := await asyncio.to_thread(file.read):
                    yield chunk
                file.close()
                file = newer
    finally:
        file.close()
