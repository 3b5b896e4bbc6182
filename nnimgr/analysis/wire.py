"""Format of the messages (frames) between the server and its analysis process.

A frame is a u32 with the length of a JSON head, the head, and a body. A question is a frame without a body,
whose head has the name of the question and its arguments. The head of an answer is an error, or ``{"length":
N}`` if the body has N bytes.
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
    """Encode a message as the bytes of one frame. Raise ValueError if the head contains NaN."""
    text = json.dumps(head, allow_nan=False).encode()
    return b"".join((LENGTH.pack(len(text)), text, body))


def failure(error: Exception) -> dict[str, Any]:
    """Return the head of an answer that reports this error."""
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
    """Raise the error that the head of an answer reports. Do nothing if the head reports no error."""
    match head.get("failed"):
        case "question":
            raise BadQuestion(head["field"], head["message"], position=head["position"])
        case "store":
            raise StoreError(head["message"])
        case "absent":
            raise FileNotFoundError(head["message"])
        case "fault":
            raise AnalysisFailed(head["message"])
