"""Requests and answers about machines."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AwareDatetime, Field, model_validator

from nnimgr.api.models.base import First, JsonObject, Model, Request
from training_services.base import MachineStatus


class AddMachines(Request):
    """Machines to add to an experiment, given either as ``machines`` or as ``text``."""

    machines: Annotated[list[JsonObject], First] | None = Field(
        None, description="items of machineList in canonical form (camelCase)", min_length=1, max_length=1000
    )
    text: str | None = Field(
        None,
        max_length=1 << 18,
        description="machines in YAML or JSON: a list, one machine, or a mapping with machineList; relative "
        "paths refer to the home directory of the server's user",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.machines is None) == (self.text is None):
            raise ValueError("give either machines or text")
        return self


class DrainMachine(Request):
    undo: bool = Field(False, description="true: place trials there again")


class Machine(Model):
    """Machine of an experiment. Fields that its keeper has not reported are null."""

    id: str
    name: str
    address: str
    status: MachineStatus
    reason: str | None = Field(
        description="why the machine is not connected, or a problem that its keeper reports"
    )
    since: AwareDatetime | None = Field(
        description="time of the last contact with the machine, if it is not connected"
    )
    trial_ids: list[str]
    cpus: float | None
    memory_mb: int | None
    disk_free_mb: int | None = Field(
        description="free disk space when the machine's keeper first called the server"
    )
    gpus: int | None
    keeper_version: str | None
    ends_at: AwareDatetime | None = Field(
        description="time limit at which the cluster ends the machine; null: none, or not known"
    )
    made_on_demand: bool = Field(
        description="true: the platform has made it for trials and ends it itself, so it cannot be "
        "drained or removed"
    )


class Machines(Model):
    machines: list[Machine]
    changeable: bool = Field(
        description="false: the platform makes and ends the machines itself, so none can be added, "
        "drained or removed"
    )


class AddedMachines(Model):
    ids: list[str]
