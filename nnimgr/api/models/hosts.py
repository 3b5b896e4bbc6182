"""Answers about the machines of all experiments of a server."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from nnimgr.api.models.base import Model
from training_services.base import MachineStatus


class HostMember(Model):
    """Experiment that uses the machine, and the state of the machine in that experiment."""

    experiment_id: str
    machine: str = Field(description="id of the machine in the experiment")
    status: MachineStatus
    reason: str | None
    since: AwareDatetime | None


class HostTrial(Model):
    """Attempt on the machine, and the resources that it holds there."""

    experiment_id: str
    trial_id: str
    sequence: int | None = Field(
        description="number of the trial; null: the trial has ended, and its attempt is being cleaned up"
    )
    attempt: int
    gpus: list[int]
    gpu_share: float | None = Field(
        description="share of each GPU that the attempt holds; null: it holds none"
    )
    cpus: float = Field(description="CPUs that are reserved for the attempt; 0: none")
    memory_mb: int = Field(description="MB of memory that are reserved for the attempt")


class HostGpu(Model):
    index: int
    other_memory_mb: int = Field(description="memory in use that belongs to no visible process")
    other_processes: list[int] = Field(description="ids of processes that do not belong to a trial")


class Host(Model):
    """Machine that experiments of this server use. Fields that no keeper has reported are null."""

    address: str
    name: str
    cpus: float | None
    memory_mb: int | None
    disk_free_mb: int | None = Field(
        description="free disk space when a keeper on the machine first called the server"
    )
    gpus: list[HostGpu] | None = Field(
        description="GPUs of the machine; null: no experiment on this server uses GPUs"
    )
    gpu_trouble: str | None = Field(description="one sentence: problem with the GPUs")
    experiments: list[HostMember]
    trials: list[HostTrial]


class WaitingTrials(Model):
    """Trials of an experiment that wait for a place, all for the same reason."""

    experiment_id: str
    reason: str
    count: int


class Hosts(Model):
    hosts: list[Host]
    waiting: list[WaitingTrials]
