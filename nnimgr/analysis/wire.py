"""Frames between the server and its analysis process.

A frame is a u32 with the length of a JSON head, the head, and a body. The head of a question names the
question. The head of an answer is ``{"length": of the body}``, or an error.
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
    """Return the bytes of one frame. Raise ValueError on a NaN."""
    text = json.dumps(head, allow_nan=False).encode()
    return b"".join((LENGTH.pack(len(text)), text, body))


def failure(error: Exception) -> dict[str, Any]:
    """Return the head of an answer that reports an error."""
    if isinstance(error, BadQuestion):
        told = {"field": error.field, "message": error.message, "position": error.position}
        return {"failed": "question", **told}
    kinds = {StoreError: "store", FileNotFoundError: "absent"}
    kind = next((name for known, name in kinds.items() if isinstance(error, known)), "fault")
    message = str(error)
    if kind == "fault":
        message = f"the analysis failed with {type(error).__name__}; see the server's log"
    return {"failed": kind, "message": message}


def raise_failure(head: Mapping[str, Any]) -> None:
    """Raise the error in the head of an answer, if it has one."""
    match head.get("failed"):
        case "question":
            raise BadQuestion(head["field"], head["message"], position=head["position"])
        case "store":
            raise StoreError(head["message"])
        case "absent":
            raise FileNotFoundError(head["message"])
        case "fault":
            raise AnalysisFailed(head["message"])
