"""Answers about the CPU time, the memory and the GPUs that machines and trials use over time."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from nnimgr.api.models.base import Model


class GpuUsage(Model):
    index: int
    busy_percent: int | None
    memory_mb: int


class UsageSample(Model):
    """One measurement, which covers the time since the previous one."""

    at: AwareDatetime
    cpus: float = Field(description="mean number of CPUs in use")
    memory_mb: int = Field(description="MB of memory in use, without the file cache")
    gpus: list[GpuUsage]


class Usage(Model):
    """Measurements in the order of time: about one every 10 s while a trial runs, fewer of long ago."""

    samples: list[UsageSample]
