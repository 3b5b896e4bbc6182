"""A longer way to a machine: forwards connections and holds every piece back for a while, each way.

    python -m tests.machines.detour DELAY_S HOST PORT AT

prints the port that it listens on at the address AT, and runs until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_PIECE = 1 << 16
_UNDER_WAY = 256  # pieces


@contextlib.contextmanager
def detour(host: str, port: int, *, delay_s: float, at: str = "127.0.0.1") -> Iterator[int]:
    """The port of the address ``at`` from where ``host:port`` is that much further away."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.machines.detour", str(delay_s), host, str(port), at],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float) -> None:
    """Hand on what comes, as late as wanted but no slower."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY)

    async def read() -> None:
        piece = b"-"
        while piece:
            piece = await source.read(_PIECE)
            await pieces.put((loop.time() + delay_s, piece))

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(due - loop.time())
            if not piece:
                break
            target.write(piece)
            await target.drain()
    target.close()


async def _serve(delay_s: float, host: str, port: int, at: str) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ExceptionGroup):
            far_reader, far_writer = await asyncio.open_connection(host, port)
            async with asyncio.TaskGroup() as group:
                group.create_task(_carry(reader, far_writer, delay_s))
                group.create_task(_carry(far_reader, writer, delay_s))

    server = await asyncio.start_server(forward, at, 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
