"""Answers about CPU time, memory and GPUs that machines and trials have used over time."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from nnimgr.api.models.base import Model


class GpuUsage(Model):
    index: int
    busy_percent: int | None
    memory_mb: int


class UsageSample(Model):
    """Measurement that covers the time since the previous measurement."""

    at: AwareDatetime
    cpus: float = Field(description="mean number of CPUs in use")
    memory_mb: int = Field(description="MB of memory in use, without the file cache")
    gpus: list[GpuUsage]


class Usage(Model):
    """Measurements in the order of time.

    There is about one every 10 s while a trial is young, later one a minute, and fewer for older times.
    """

    samples: list[UsageSample]
