"""Table of tasks that wait for the end of a job."""

from __future__ import annotations

import asyncio

__all__ = ["JobEnds"]


class JobEnds:
    """Tasks that wait for the end of jobs, as reported by the jobs' keepers."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}

    async def wait(self, job_id: str, seconds: float) -> None:
        """Wait until the job has ended, at most this number of seconds."""
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
        """Wake all tasks that wait for the end of the job, which its keeper has reported."""
        for waiter in self._waiters.pop(job_id, ()):
            if not waiter.done():
                waiter.set_result(None)
