"""Table of the tasks that wait for the ends of jobs."""

from __future__ import annotations

import asyncio

__all__ = ["JobEnds"]


class JobEnds:
    """Table of the tasks that wait for jobs to end. A keeper's report of the end wakes them."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}

    async def wait(self, job_id: str, seconds: float) -> None:
        """Wait until the job has ended, for at most this number of seconds."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault(job_id, [])
        waiters.append(waiter)
        try:
            await asyncio.wait({waiter}, timeout=seconds)
        finally:
            if not waiter.done():
                waiters.remove(waiter)
                if not waiters:
                    self._waiters.pop(job_id, None)

    def came(self, job_id: str) -> None:
        """Wake all tasks that wait for the end of this job, because its end was reported."""
        for waiter in self._waiters.pop(job_id, ()):
            if not waiter.done():
                waiter.set_result(None)
