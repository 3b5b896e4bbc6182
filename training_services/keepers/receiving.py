"""Receives a checkpoint from its host, through the host's keeper, into the experiment's store of copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from training_services.base import KeptCopy, ServiceUnavailable
from training_services.checkpoint_store import CheckpointStore, Damaged, Incoming
from training_services.keepers.hub import KeeperDesk
from training_services.keepers.reads import ReadStream
from trial_keeper.checkpoints import contents
from trial_keeper.checkpoints.contents import Entry

__all__ = ["Broken", "in_thread", "receive_checkpoint"]

_PIECE = 1 << 20  # bytes that are written at once
_LONGEST_LIST = 32 << 20
T = TypeVar("T")


class Broken(ServiceUnavailable):
    """Error: what has arrived cannot be used. The next transfer begins again."""


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Call a function of the store in a thread, and wait for its end even if the caller is canceled.

    Raises ServiceUnavailable in place of OSError.
    """
    future = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait({future})
        raise
    except OSError as error:
        where = "" if error.filename is None else f" ({error.filename})"
        raise ServiceUnavailable(f"the copy cannot be written: {error.strerror or error}{where}") from error


async def receive_checkpoint(
    store: CheckpointStore,
    desk: KeeperDesk,
    job_id: str,
    number: int,
    parts: Sequence[str],
    *,
    size: int | None,
    moved: Callable[[], None],
) -> KeptCopy:
    """Receive the checkpoint, and return the durable copy. An interrupted transfer is continued.

    ``parts``: path to the checkpoint's folder on the host. ``size``: bytes of all its files, as the trial has
    reported them, or None. ``moved`` is called after each piece. Raises FileNotFoundError if the checkpoint
    is missing on its host or has another size, ValueError if it can never be transferred, and
    ServiceUnavailable.
    """
    incoming = await in_thread(store.resume, job_id, number)
    stream = ReadStream(desk.link.keeper_id)
    try:
        offset = 0 if incoming is None else incoming.offset
        async with aclosing(desk.checkpoint(parts, stream, offset=offset)) as pieces:
            entries, rest = await _list(pieces)
            if size is not None and (found := contents.size_of(entries)) != size:
                raise FileNotFoundError(f"they have {found:,} bytes in place of {size:,}")
            if incoming is None:
                incoming = await in_thread(store.begin, job_id, number, entries)
            elif incoming.entries != entries:
                raise Broken("its files have changed during the transfer, which begins again")
            await _receive(pieces, rest, incoming, moved)
        return await in_thread(store.finish, job_id, number, incoming, stream.end.get("hashes", ()))
    except (Damaged, Broken) as error:
        await in_thread(store.drop_part, job_id, number)
        raise Broken(str(error)) from error
    finally:
        if incoming is not None:
            incoming.close()


async def _list(pieces: AsyncGenerator[bytes, None]) -> tuple[list[Entry], bytes]:
    """Return the list of files at the beginning of the stream, and the bytes behind it."""
    head = b""
    async for piece in pieces:
        head += piece
        if b"\n" in piece or len(head) > _LONGEST_LIST:
            break
    line, _, rest = head.partition(b"\n")
    return contents.decode_list(line), rest


async def _receive(
    pieces: AsyncGenerator[bytes, None], rest: bytes, incoming: Incoming, moved: Callable[[], None]
) -> None:
    """Write the rest of the stream in large pieces, one of which is written while the next one arrives."""
    waiting, size = [rest], len(rest)
    writing: asyncio.Future[None] | None = None
    try:
        async for piece in pieces:
            moved()
            waiting.append(piece)
            size += len(piece)
            if size >= _PIECE:
                if writing is not None:
                    await writing
                writing = asyncio.ensure_future(in_thread(incoming.write, b"".join(waiting)))
                waiting, size = [], 0
        if writing is not None:
            await writing
        await in_thread(incoming.write, b"".join(waiting))
    finally:
        if writing is not None and not writing.done():  # the folder is not closed before its writer has ended
            await asyncio.wait({writing})
