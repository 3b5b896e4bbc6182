"""Reading of the machines to add to a running experiment. They are written as items of ``machineList``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnimgr.config.document import Document, read_document
from nnimgr.config.model import plain_model
from nnimgr.config.parsing import Reading, match_key, parse, validate
from nnimgr.config.problems import ConfigError
from nnimgr.config.secrets import hide_in
from training_services.ssh.config import MachineConfig

__all__ = ["hide_machine", "load_machines", "load_machines_text", "read_machines"]

_AT = "machineList"


def load_machines(file: Path, *, environ: Mapping[str, str] = os.environ) -> list[dict[str, Any]]:
    """Read machines from a file: a list of machines, a mapping with ``machineList``, or one machine.

    Return them in the form that is sent over REST. Raise ConfigError.
    """
    return _load(read_document(file), Path(os.path.abspath(file)).parent, environ)


def load_machines_text(
    text: str, *, base: Path, environ: Mapping[str, str] = os.environ
) -> list[dict[str, Any]]:
    """Read machines from a text that is not in a file. Relative paths start from ``base``.

    Return them in the form that is sent over REST. Raise ConfigError.
    """
    return _load(Document(None, text), base, environ)


def _load(document: Document, base: Path, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    reading = Reading(document=document, base=base, environ=environ)
    found = document.value
    if isinstance(found, Mapping):
        lists = [value for key, value in found.items() if match_key(str(key)) == "machinelist"]
        found = lists[0] if lists else [found]
    return [plain_model(machine) for machine in _machines(reading, found)]


def read_machines(raw: Any) -> list[MachineConfig]:
    """Return machines from the form that is stored and sent over REST. Raise ConfigError."""
    return _machines(Reading(), raw)


def hide_machine(machine: MachineConfig) -> tuple[MachineConfig, dict[str, str]]:
    """Replace a machine's secrets by references. Return the machine, and the secrets by reference."""
    return hide_in(machine, ("machines", machine.keeper_id))


def _machines(reading: Reading, raw: Any) -> list[MachineConfig]:
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        reading.fault((_AT,), "must be a list of machines, each with its host")
        raise ConfigError(reading.problems)
    found = []
    for number, item in enumerate(raw):
        values = parse(reading, item, MachineConfig, (_AT, number))
        if values is not None:
            found.append(validate(reading, MachineConfig, values, (_AT, number)))
    if reading.problems:
        raise ConfigError(reading.problems)
    return found
