"""Converts facts that earlier versions of nnimgr have stored to their current form. Pure functions."""

from __future__ import annotations

from typing import Any

from nnimgr import codec
from nnimgr.traits import traits_of

__all__ = ["completed", "reason_of"]

# Earlier versions repeated the status at the beginning of its reason. These are the repeated words, by
# status.
_SAID_BEFORE = {
    "DONE": "done: ",
    "DRAINING": "waits for its last trials: ",
    "PAUSED": "paused: ",
    "USER_CANCELED": "stopped: ",
    "EARLY_STOPPED": "stopped: ",
    "SYS_CANCELED": "stopped: ",
}


def completed(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a stored fact of type ``kind`` in their current form: add missing fields, adapt
    old values.
    """
    match kind:
        case "ExperimentCreated" if "traits" not in fields:
            return fields | {"traits": _traits(fields["config"])}
        case "ConfigChanged" if "tuner" in fields["changes"] and "traits" not in fields:
            return fields | {"traits": _traits(fields["changes"])}
        case "ExperimentMoved" | "TrialEnded":
            return fields | {"reason": reason_of(fields["status"], fields["reason"])}
        case "TrialPaused":
            return fields | {"reason": reason_of("PAUSED", fields["reason"])}
    return fields


def reason_of(status: str, stored: str) -> str:
    """Return the stored reason of a status, without leading words that only repeat the status."""
    return stored.removeprefix(_SAID_BEFORE.get(status, ""))


def _traits(config: dict[str, Any]) -> Any:
    """Return the properties of the tuner in this configuration, which the logs of earlier versions lack.

    They come from the current table of built-in algorithms.
    """
    return codec.encode(traits_of(config))
