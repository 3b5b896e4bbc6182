"""Training service in one file: each job is a process of this machine.

Use it with ``nnictl trainingservice register --package subprocesses`` (this directory on PYTHONPATH) and
``trainingService: {platform: subprocesses}``. ``BatchService`` does everything that does not depend on the
platform: places, metrics, restarts, adoption, files. docs/writing-a-training-service.md explains the parts.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Collection
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from training_services.base import ExperimentContext
from training_services.batch.platform import BatchJob, BatchPlatform
from training_services.batch.service import BatchService
from training_services.tools import ServiceTools
from trial_keeper.machine import procs

MARK = "NNIMGR_JOB_ID="  # environment variable that marks all processes of a job


class SubprocessConfig(BaseModel):
    """Configuration of this platform, under ``trainingService``."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    platform: Literal["subprocesses"] = "subprocesses"
    poll_seconds: Annotated[float, Field(gt=0)] = 0.2  # interval between two checks of the jobs


class SubprocessPlatform(BatchPlatform):
    """Platform that runs each job's script in its own session, which continues without the server."""

    name = "subprocesses"

    def __init__(self, context: ExperimentContext, config: SubprocessConfig) -> None:
        super().__init__(context)
        self.poll_s = config.poll_seconds

    async def submit(self, job: BatchJob) -> None:
        await asyncio.to_thread(
            subprocess.run,
            # send the script through a pipe, because all users can see arguments
            ["setsid", "--fork", "/bin/sh", "-s"],
            input=job.script.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**self.context.environ, MARK.rstrip("="): job.id},
            check=True,
        )

    async def list(self) -> Collection[str]:
        return (await asyncio.to_thread(_processes)).keys()

    async def cancel(self, job_id: str, grace: timedelta) -> None:
        await self._signal(job_id, signal.SIGTERM)
        for _ in range(int(grace / timedelta(seconds=0.1))):
            if job_id not in await self.list():
                return
            await asyncio.sleep(0.1)
        await self._signal(job_id, signal.SIGKILL)

    async def _signal(self, job_id: str, number: signal.Signals) -> None:
        procs.signal_all((await asyncio.to_thread(_processes)).get(job_id, []), number)


def _processes() -> dict[str, list[int]]:
    """Return the processes of each running job."""
    found: dict[str, list[int]] = {}
    for pid in procs.all_pids():
        for text in procs.strings(pid, "environ"):
            if text.startswith(MARK):
                found.setdefault(text.removeprefix(MARK), []).append(pid)
    return found


def make_service(context: ExperimentContext, config: SubprocessConfig, tools: ServiceTools) -> BatchService:
    """Return the service of one experiment."""
    return BatchService(SubprocessPlatform(context, config))


CONFIG, SERVICE = SubprocessConfig, make_service
