"""Requests and answers about machines."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AwareDatetime, Field, model_validator

from nnimgr.api.models.base import First, JsonObject, Model, Request
from training_services.base import MachineStatus


class AddMachines(Request):
    """Either ``machines`` or ``text``."""

    machines: Annotated[list[JsonObject], First] | None = Field(
        None, description="items of machineList, canonical", min_length=1, max_length=1000
    )
    text: str | None = Field(
        None,
        max_length=1 << 18,
        description="as users write them, in YAML or JSON: a list, one machine, or a mapping with "
        "machineList; relative paths in it refer to the home directory of the server's user",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.machines is None) == (self.text is None):
            raise ValueError("either machines or text has to be given")
        return self


class DrainMachine(Request):
    undo: bool = Field(False, description="place trials there again")


class Machine(Model):
    """A machine of an experiment. What its keeper has not told (yet) is null."""

    id: str
    name: str
    address: str
    status: MachineStatus
    reason: str | None = Field(description="why it is not connected, or what its keeper complains of")
    since: AwareDatetime | None = Field(description="the last word from there, if it is not connected")
    trial_ids: list[str]
    cpus: float | None
    memory_mb: int | None
    disk_free_mb: int | None = Field(description="when its keeper called first")
    gpus: int | None
    keeper_version: str | None


class Machines(Model):
    machines: list[Machine]


class AddedMachines(Model):
    ids: list[str]
