"""Part of ``nni.utils`` for trial code, which works without nnimgr. Python 3.8 or newer."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Base = TypeVar("Base")

__all__ = ["merge_parameter"]


def merge_parameter(base_params: Base, override_params: dict[str, Any] | None) -> Base:
    """Update ``base_params``, a dict or an argparse.Namespace, in place with ``override_params``. Return it.

    Raise ValueError for a key that ``base_params`` lacks, and for a value of another type. None can be
    replaced by any type, and a float by an int.
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
