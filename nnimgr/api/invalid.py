"""Sentences about the invalid values of a request, which name the field and never repeat its content.

The content may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nnimgr.validation import allowed, wanted

__all__ = ["problems"]


def problems(faults: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return one problem for each error of pydantic: the path of its field, and a message."""
    return [{"field": _field(fault), "message": _message(fault)} for fault in faults]


def _field(fault: Mapping[str, Any]) -> str:
    """Return the path of a field, without the names of types that pydantic adds if several are allowed."""
    if fault["type"] == "json_invalid":
        return str(fault["loc"][0])
    return ".".join(str(part) for part in fault["loc"] if not {"[", "("} & set(str(part)))


def _message(fault: Mapping[str, Any]) -> str:
    kind, about = fault["type"], fault.get("ctx") or {}
    if (must_be := wanted(kind, about)) is not None:
        return f"must be {must_be}"
    if (valid := allowed(kind, about)) is not None:
        return f"must be one of {', '.join(valid)}"
    match kind:
        case "missing":
            return "required, but not given"
        case "extra_forbidden":
            return "unknown field"
        case "json_invalid":
            return f"is not valid JSON: {about['error']} (character {fault['loc'][-1]})"
        case "string_too_long":
            return f"must have at most {about['max_length']} characters"
        case "too_long":
            parts = "items" if about.get("field_type") == "List" else "characters"
            return f"must have at most {about['max_length']} {parts}, not {about['actual_length']}"
        case "string_too_short" | "too_short" if about["min_length"] == 1:
            return "must not be empty"
        case "string_pattern_mismatch":
            return f"has characters that are not allowed here; the allowed texts are {about['pattern']}"
        case "value_error":
            return str(about["error"])
    return str(fault["msg"])
