"""Log files as streams of bytes: the whole log or its last lines, then new content if a client follows it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import cast

from trial_keeper.machine.untrusted_files import PlainFile

__all__ = ["LogName", "ReadLog", "begun", "log_stream", "plain_log"]

LOOK_S = 0.25  # seconds between two checks of a local log that a client follows

ReadLog = Callable[[bool, int | None], AsyncIterator[bytes]]
"""Function that reads a file.

First argument: True to read on until the attempt has ended. Second: number of last lines to read; None: all.
"""


class LogName(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    TRIAL_LOG = "trial.log"


async def log_stream(read: ReadLog, *, follow: bool, tail: int | None) -> AsyncGenerator[bytes, None]:
    """Open a log with the function ``read``, and return the chunks to send.

    ``tail``: send only this number of last lines of the current content. The file is opened before this
    function returns, so that FileNotFoundError is raised before the first byte is sent.
    """
    if not follow:
        return await begun(read(False, tail))
    async with _closing(read(False, 0)) as chunks:  # a file that is followed would block here until it grows
        await anext(chunks, b"")
    return _generator(read(True, tail))


async def begun(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Wait for the first chunk of a file. Return an iterator over all chunks, including the first.

    So an error in opening the file is raised by this call, and not later by the iterator.
    """
    source = _generator(chunks)
    return _after(await anext(source, b""), source)


async def _after(first: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks) as source:
        if first:
            yield first
        async for chunk in source:
            yield chunk


def _generator(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    return cast("AsyncGenerator[bytes, None]", chunks)  # training services return asynchronous generators


def _closing(chunks: AsyncIterator[bytes]) -> aclosing[AsyncGenerator[bytes, None]]:
    return aclosing(_generator(chunks))


async def plain_log(
    root: Path, parts: Sequence[str], name: str, *, follow: bool, tail: int | None
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a log on this machine, the file ``name`` in the folder ``parts`` below ``root``.

    With ``follow``, continue for as long as the client reads, even if a new file of the same name replaces
    the log. Raise FileNotFoundError if there is no such file, or if it is a link or a pipe.
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
            with contextlib.suppress(FileNotFoundError):  # the file is being replaced at this moment
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
