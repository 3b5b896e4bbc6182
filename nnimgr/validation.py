"""What a value must be, in plain words, for errors of pydantic. Users do not know pydantic's own messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["allowed", "wanted"]

_KINDS = {
    **dict.fromkeys(("string_type", "is_instance_of", "path_type"), "text"),
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "list_type": "a list",
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type"), "a mapping of keys to values"
    ),
}
_LIMITS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def wanted(kind: str, context: Mapping[str, Any]) -> str | None:
    """Return what a value must be, to be written after "must be"; None if pydantic's error says more.

    ``kind``, ``context``: pydantic's name of the error (``type``) and its details (``ctx``).
    """
    if kind in _LIMITS:
        words, key = _LIMITS[kind]
        limit = context.get(key)
        if isinstance(limit, float) and limit.is_integer():
            limit = int(limit)
        return f"{words} {limit}"
    return _KINDS.get(kind)


def allowed(kind: str, context: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the valid values, if a value must be one of a few; else None."""
    if kind not in ("literal_error", "enum"):
        return None
    texts = str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
    # Configurations and requests have no True and False, but true and false.
    return tuple(text.lower() if text in ("True", "False") else text for text in texts)
