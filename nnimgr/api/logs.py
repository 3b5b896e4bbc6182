"""A trial's output as a stream of bytes: all of it, or its last lines, then whatever follows."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import cast

from training_services.logs import LogFile

__all__ = ["LogName", "ReadLog", "folder_log", "log_stream"]

ReadLog = Callable[[bool], AsyncIterator[bytes]]
"""Reads the file from its start; True: goes on until the attempt has ended."""


class LogName(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    TRIAL_LOG = "trial.log"


async def log_stream(read: ReadLog, *, follow: bool, tail: int | None) -> AsyncGenerator[bytes, None]:
    """The chunks to send. ``tail``: only so many last lines of what is there now.

    The file is looked at before this returns, so that FileNotFoundError comes before the first byte is sent.
    Memory does not grow with the file: the tail is found in one reading and sent in a second one.
    """
    if tail is not None:
        return _from(read(follow), await _start_of_tail(read, tail))
    if follow:  # following an empty file would not come back before it is written to
        async with _closing(read(False)) as chunks:
            await anext(chunks, b"")
        return _from(read(True), 0)
    chunks = _generator(read(False))
    return _after(await anext(chunks, b""), chunks)


async def folder_log(directory: Path, *, parts: Sequence[str], name: str) -> AsyncGenerator[bytes, None]:
    """A log as it lies below an experiment's ``directory``. Raises FileNotFoundError."""
    file = LogFile(directory, parts, name)
    try:
        while chunk := file.read():
            yield chunk
    finally:
        file.close()


async def _start_of_tail(read: ReadLog, tail: int) -> int:
    """The position at which the last ``tail`` lines begin. A last line need not be complete."""
    size = 0
    starts: deque[int] = deque([0], maxlen=tail + 1)
    async with _closing(read(False)) as chunks:
        async for chunk in chunks:
            at = chunk.find(b"\n")
            while at >= 0:
                starts.append(size + at + 1)
                at = chunk.find(b"\n", at + 1)
            size += len(chunk)
    if tail == 0:
        return size
    if starts[-1] != size and len(starts) > tail:  # the last line is not complete: one start too many
        return starts[1]
    return starts[0]


async def _from(chunks: AsyncIterator[bytes], start: int) -> AsyncGenerator[bytes, None]:
    async with _closing(chunks) as source:
        async for chunk in source:
            if start < len(chunk):
                yield chunk[start:]
            start = max(0, start - len(chunk))


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
