"""Checks of ``checkpoints.storage``: the storage that gets the server's copies of checkpoints."""

from __future__ import annotations

from nnimgr.config.model import ExperimentConfig
from nnimgr.config.parsing import Reading
from nnimgr.libraries import fault_of
from training_services.checkpoint_storage.url import driver_fault
from training_services.platform import describe

__all__ = ["check_storage"]

_AT = ("checkpoints", "storage")


def check_storage(reading: Reading, config: ExperimentConfig | None) -> None:
    """Report a storage whose driver is missing, and one that has no effect."""
    from training_services import registry

    if config is None or config.checkpoints is None or config.checkpoints.storage is None:
        return
    member = config.members[0]
    kind = member.platform
    if not describe(member.service).makes_allocations and registry.hosts_class(kind) is None:
        reading.fault(_AT, f'the platform "{kind}" makes no copies of checkpoints, so leave the field out')
    elif config.multi_phase:
        reading.fault(_AT, "trials with 'multiPhase' continue from no checkpoint, so leave the field out")
    elif (lacks := fault_of(("fsspec",))) is not None:
        reading.fault(_AT, lacks)
    elif (fault := driver_fault(config.checkpoints.storage)) is not None:
        reading.fault(_AT, fault)
