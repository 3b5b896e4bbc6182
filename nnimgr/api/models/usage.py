"""Answers about the CPU time, memory and GPUs that machines and trials have used over time."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from nnimgr.api.models.base import Model


class Keeper(Model):
    """Agent beside the trials on a machine that the experiment uses or has used."""

    id: str
    host: str | None = Field(description="null: it is not on another machine that is known by name")


class Keepers(Model):
    keepers: list[Keeper]


class GpuUsage(Model):
    index: int
    busy_percent: int | None
    memory_mb: int


class UsageSample(Model):
    """Measurement of the resources in use. It covers the time since the previous measurement."""

    at: AwareDatetime
    cpus: float = Field(description="mean number of CPUs in use")
    memory_mb: int = Field(description="MB of memory in use, without the file cache")
    gpus: list[GpuUsage]


class Usage(Model):
    """Measurements of the resources in use, in the order of time.

    While a trial is young, there is about one measurement every 10 s, later one a minute. Of older
    measurements, only some are kept.
    """

    samples: list[UsageSample]
