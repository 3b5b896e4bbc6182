"""Descriptions of the hosts of an experiment for users: their state and their problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from training_services.base import Machine
from training_services.keepers.seat import KeeperSeat
from training_services.placement.ledger import HostLedger

__all__ = ["machines", "notices"]


def machines(seats: Iterable[KeeperSeat], ledger: HostLedger) -> Sequence[Machine]:
    """Return a description of each host of the experiment."""
    found = []
    for seat in seats:
        reading = ledger.reading(seat.host.id)
        gpus = None if reading is None or reading.trouble is not None else len(reading.gpus)
        found.append(seat.machine(gpus=gpus))
    return found


def notices(seats: Iterable[KeeperSeat], ledger: HostLedger) -> Mapping[str, str]:
    """Return the current problems of keepers and GPUs: "keeper <id>" or "gpus <id>" -> one sentence."""
    found: dict[str, str] = {}
    for seat in seats:
        if (notice := seat.notice()) is not None:
            found[f"keeper {seat.id}"] = notice
        if seat.wants.uses_gpus:
            trouble = ledger.trouble(seat.host)
            if trouble is not None:
                found[f"gpus {seat.id}"] = trouble
    return found
