"""Frames between the server and its analysis process: a u32 with the length of a JSON head, the head, a body.

A question's head names it; its answer's head is ``{"length": of the body}``, or says why there is none.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from nnimgr.analysis.errors import AnalysisFailed, BadQuestion
from nnimgr.store.errors import StoreError

__all__ = ["LENGTH", "failure", "frame", "raise_failure"]

LENGTH = struct.Struct("<I")


def frame(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """One frame. Raises ValueError on a NaN."""
    text = json.dumps(head, allow_nan=False).encode()
    return b"".join((LENGTH.pack(len(text)), text, body))


def failure(error: Exception) -> dict[str, Any]:
    """The head of an answer that is none."""
    if isinstance(error, BadQuestion):
        told = {"field": error.field, "message": error.message, "position": error.position}
        return {"failed": "question", **told}
    kinds = {StoreError: "store", FileNotFoundError: "absent"}
    kind = next((name for known, name in kinds.items() if isinstance(error, known)), "fault")
    message = str(error)
    if kind == "fault":
        message = f"the analysis failed with {type(error).__name__}; the server's log says more"
    return {"failed": kind, "message": message}


def raise_failure(head: Mapping[str, Any]) -> None:
    """Raise what the head says that has failed, if anything has."""
    match head.get("failed"):
        case "question":
            raise BadQuestion(head["field"], head["message"], position=head["position"])
        case "store":
            raise StoreError(head["message"])
        case "absent":
            raise FileNotFoundError(head["message"])
        case "fault":
            raise AnalysisFailed(head["message"])
