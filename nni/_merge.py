"""The function ``nni.utils.merge_parameter`` for trial code.

It works without the package nnimgr, on Python 3.8 or newer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Base = TypeVar("Base")

__all__ = ["merge_parameter"]


def merge_parameter(base_params: Base, override_params: dict[str, Any] | None) -> Base:
    """Replace values of ``base_params``, a dict or an argparse.Namespace, by those of ``override_params``.

    Return ``base_params``. Raise ValueError if ``base_params`` lacks a key, or if a new value has another
    type than the old one. Any type may replace None, and an int may replace a float.
    """
    held = base_params if isinstance(base_params, dict) else vars(base_params)
    for key, value in (override_params or {}).items():
        if key not in held:
            raise ValueError(
                f"there is no parameter {key!r} to override; known are {', '.join(map(str, held))}"
            )
        old = held[key]
        widened = type(old) is float and type(value) is int
        if old is not None and type(value) is not type(old) and not widened:
            raise ValueError(
                f"the parameter {key!r} is of type {type(old).__name__} and cannot become "
                f"{value!r} of type {type(value).__name__}"
            )
        held[key] = value
    return base_params
