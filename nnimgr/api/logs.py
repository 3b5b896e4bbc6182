"""A trial's output as a stream of bytes: all of it, or its last lines, then whatever follows."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from enum import StrEnum
from typing import cast
from collections.abc import AsyncGenerator

__all__ = ["LogName", "ReadLog", "log_stream"]

ReadLog = Callable[[bool], AsyncIterator[bytes]]
"""Reads the file from its start; True: goes on until the job has ended."""


class LogName(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    TRIAL_LOG = "trial.log"


async def log_stream(read: ReadLog, *, follow: bool, tail: int | None) -> AsyncIterator[bytes]:
    """The chunks to send. ``tail``: only so many last lines of what is there now.

    The file is looked at before this returns, so that FileNotFoundError comes before the first byte is sent.
    Memory does not grow with the file: the tail is found in one reading and sent in a second one.
    """
    start = 0
    if tail is not None:
        start = await _start_of_tail(read, tail)
    elif follow:  # following an empty file would not come back before it is written to
        async with _closing(read(False)) as chunks:
            await anext(chunks, b"")
    if follow or tail is not None:
        return _from(read(follow), start)
    chunks = read(False)
    first = await anext(chunks, b"")
    return _after(first, chunks)


async def _start_of_tail(read: ReadLog, tail: int) -> int:
    """The position at which the last ``tail`` lines begin. A last line need not be complete."""
    size = 0
    starts: deque[int] = deque([0], maxlen=tail + 1) if tail else deque(maxlen=1)
    async with _closing(read(False)) as chunks:
        async for chunk in chunks:
            at = chunk.find(b"\n")
            while at >= 0:
                starts.append(size + at + 1)
                at = chunk.find(b"\n", at + 1)
            size += len(chunk)
    if not tail:
        return size
    if starts[-1] != size:  # the last line is not complete: it counts, and the oldest start is one too many
        return starts[-tail] if len(starts) >= tail else starts[0]
    return starts[0]


async def _from(chunks: AsyncIterator[bytes], start: int) -> AsyncIterator[bytes]:
    async with _closing(chunks) as source:
        async for chunk in source:
            if start >= len(chunk):
                start -= len(chunk)
                continue
            yield chunk[start:] if start else chunk
            start = 0


async def _after(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async with _closing(chunks) as source:
        if first:
            yield first
        async for chunk in source:
            yield chunk


def _closing(chunks: AsyncIterator[bytes]) -> aclosing[AsyncGenerator[bytes, None]]:
    return aclosing(cast("AsyncGenerator[bytes, None]", chunks))  # services give asynchronous generators
