"""Answers about the machines of all experiments of a server."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from nnimgr.api.models.base import Model
from training_services.base import MachineStatus


class HostMember(Model):
    """An experiment that uses the machine, and how the machine is for it."""

    experiment_id: str
    machine: str = Field(description="its id among the experiment's machines")
    status: MachineStatus
    reason: str | None
    since: AwareDatetime | None


class HostTrial(Model):
    """An attempt that is on the machine, and what it holds of it."""

    experiment_id: str
    trial_id: str
    sequence: int | None = Field(description="null: the trial has ended, its attempt is being cleared away")
    attempt: int
    gpus: list[int]
    gpu_share: float | None = Field(description="of each of these; null: it has none")
    cpus: float = Field(description="that are counted for it; 0: none are")
    memory_mb: int = Field(description="that is counted for it")


class HostGpu(Model):
    index: int
    other_memory_mb: int = Field(description="in use by no process that could be seen")
    other_processes: list[int] = Field(description="ids of processes that belong to no trial")


class Host(Model):
    """A machine. What no keeper has told (yet) is null."""

    address: str
    name: str
    cpus: float | None
    memory_mb: int | None
    disk_free_mb: int | None = Field(description="when a keeper there called first")
    gpus: list[HostGpu] | None = Field(description="null: no experiment here asks for any")
    gpu_trouble: str | None = Field(description="why they cannot be used as they are, one sentence")
    experiments: list[HostMember]
    trials: list[HostTrial]


class WaitingTrials(Model):
    """Trials of an experiment that wait for a place for the same reason."""

    experiment_id: str
    reason: str
    count: int


class Hosts(Model):
    hosts: list[Host]
    waiting: list[WaitingTrials]
