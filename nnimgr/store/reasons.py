"""Converts the reasons of statuses that earlier versions of nnimgr have stored. It loads no other module."""

from __future__ import annotations

__all__ = ["reason_of"]

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


def reason_of(status: str, stored: str) -> str:
    """Return the stored reason of a status, without leading words that only repeat the status."""
    return stored.removeprefix(_SAID_BEFORE.get(status, ""))
