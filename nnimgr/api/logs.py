"""A trial's output as a stream of bytes: all of it, or its last lines, then whatever follows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from enum import StrEnum
from typing import cast

__all__ = ["LogName", "ReadLog", "begun", "log_stream"]

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
