"""A trial's output as a stream of bytes: all of it, or its last lines, then whatever follows."""

from __future__ import annotations

import asyncio
import io
import os
import stat
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import cast

__all__ = ["LogName", "ReadLog", "file_chunks", "log_stream"]

CHUNK = 64 << 10

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


async def file_chunks(directory: Path, *, parts: Sequence[str]) -> AsyncGenerator[bytes, None]:
    """The regular file ``parts`` below ``directory``, of which no part may be a link.

    Raises FileNotFoundError, also for a link, a directory or a device.
    """
    with await asyncio.to_thread(_open_below, directory, parts) as file:
        while chunk := await asyncio.to_thread(file.read1, CHUNK):
            yield chunk


def _open_below(directory: Path, parts: Sequence[str]) -> io.BufferedReader:
    at = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        for part in parts:
            if part in ("", ".", "..") or "/" in part:
                raise FileNotFoundError(part)
            last = part is parts[-1]
            # O_NONBLOCK: opening a named pipe must not wait for its other end
            flags = os.O_RDONLY | os.O_NONBLOCK if last else os.O_PATH | os.O_DIRECTORY
            below = os.open(part, flags | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        if not stat.S_ISREG(os.fstat(at).st_mode):
            raise FileNotFoundError(parts[-1])
    except OSError as error:
        os.close(at)
        raise FileNotFoundError(f"{'/'.join(parts)}: {error.strerror}") from error
    return open(at, "rb", buffering=CHUNK)


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
