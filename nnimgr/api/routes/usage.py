"""Routes for the use of CPUs, memory and GPUs by machines and trials over time, as recorded by keepers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path

from nnimgr.api import models
from nnimgr.api.dependencies import ExperimentId, NotFound, Parts, Reader, TrialId, refusals
from nnimgr.api.routes.trials import Attempt, find_job
from nnimgr.api.routing import Router
from training_services.keepers.names import host_of

router = Router(prefix="/api/v1/experiments/{id}", tags=["machines"])

_MOST_BYTES = 1 << 20  # read at most this; a keeper writes less, but a trial may write anything


@router.get("/keepers", responses=refusals(404))
async def list_keepers(reader: Reader) -> models.Keepers:
    """Return the keepers of the experiment, also after it has ended. What they have measured can be read."""
    known = await asyncio.to_thread(reader.keeper_ids)
    return models.Keepers(keepers=[models.Keeper(id=each, host=host_of(each)) for each in known])


@router.get("/keepers/{keeper}/usage", responses=refusals(404, 503))
async def keeper_usage(
    parts: Parts,
    experiment_id: ExperimentId,
    reader: Reader,
    keeper_id: Annotated[str, Path(alias="keeper", max_length=300)],
) -> models.Usage:
    """Return the use of CPUs, memory and GPUs on a keeper's machine by all programs.

    It is measured while trials of the experiment run there.
    """
    known = await asyncio.to_thread(reader.keeper_ids)
    if keeper_id not in known:
        raise NotFound(f"There is no keeper {keeper_id}; the experiment has: {', '.join(known) or 'none'}.")
    directory = parts.manager.directory(experiment_id)
    async with parts.manager.remains.files(directory, keeper_id) as files:
        return await _usage(files.read(("keeper",), "usage"))


@router.get("/trials/{trialId}/usage", responses=refusals(404, 503))
async def trial_usage(
    parts: Parts, experiment_id: ExperimentId, reader: Reader, trial_id: TrialId, attempt: Attempt = None
) -> models.Usage:
    """Return the use of CPUs and memory by all processes of an attempt. The use of GPUs is only known for the
    machine.
    """
    job = await asyncio.to_thread(find_job, reader, trial_id, attempt)
    return await _usage(parts.read_file(job, ".nni/usage", experiment_id=experiment_id))


async def _usage(chunks: AsyncIterator[bytes]) -> models.Usage:
    content = b""
    try:
        async for chunk in chunks:
            content += chunk
            if len(content) > _MOST_BYTES:
                break
    except FileNotFoundError:  # no trial has run long enough for a measurement
        return models.Usage(samples=[])
    return models.Usage(
        samples=[each for line in content.splitlines() if (each := _sample(line)) is not None]
    )


def _sample(line: bytes) -> models.UsageSample | None:
    """Return the measurement in a line of a keeper's usage log, or None if the line is not valid."""
    try:
        at, cpus, memory, *gpus = line.decode("ascii").split(" ")
        if not math.isfinite(float(cpus)):
            return None
        return models.UsageSample(
            at=datetime.fromtimestamp(float(at), UTC),
            cpus=float(cpus),
            memory_mb=int(memory),
            gpus=[_gpu(text) for text in gpus],
        )
    except (ValueError, OverflowError, OSError):  # an incomplete line, or not a line of a keeper
        return None


def _gpu(text: str) -> models.GpuUsage:
    index, busy, memory = text.split(":")
    return models.GpuUsage(
        index=int(index), busy_percent=None if busy == "-" else int(busy), memory_mb=int(memory)
    )
