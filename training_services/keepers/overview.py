"""Summary of all hosts of an experiment: their state and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from training_services.base import Machine
from training_services.keepers.seat import KeeperSeat
from training_services.placement.ledger import HostLedger

__all__ = ["machines", "notices"]


def machines(seats: Iterable[KeeperSeat], ledger: HostLedger) -> Sequence[Machine]:
    """Return a description of each host."""
    found = []
    for seat in seats:
        reading = ledger.reading(seat.host.id)
        gpus = None if reading is None or reading.trouble is not None else len(reading.gpus)
        found.append(seat.machine(gpus=gpus))
    return found


def notices(seats: Iterable[KeeperSeat], ledger: HostLedger) -> Mapping[str, str]:
    """Return what is wrong with keepers and GPUs: one sentence by "keeper <id>" or "gpus <id>"."""
    found: dict[str, str] = {}
    for seat in seats:
        if (notice := seat.notice()) is not None:
            found[f"keeper {seat.id}"] = notice
        if seat.wants.gpus:
            trouble = ledger.trouble(seat.host)
            if trouble is not None:
                found[f"gpus {seat.id}"] = trouble
    return found
