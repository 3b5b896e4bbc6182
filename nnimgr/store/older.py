"""Converts facts that earlier versions of nnimgr have stored to their current form. Pure functions."""

from __future__ import annotations

from typing import Any

from nnimgr import codec
from nnimgr.store.reasons import reason_of
from nnimgr.traits import traits_of

__all__ = ["completed"]


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


def _traits(config: dict[str, Any]) -> Any:
    """Return the properties of the tuner in this configuration, which the logs of earlier versions lack.

    They come from the current table of built-in algorithms.
    """
    return codec.encode(traits_of(config))
