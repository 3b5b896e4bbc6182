"""Numbers in the results of trials, for sinks that write curves."""

from __future__ import annotations

from typing import Any

__all__ = ["numbers_of"]


def numbers_of(result: Any) -> dict[str, float]:
    """Return the numbers of a result that is a dict, by their names.

    Integers that are too large for a float are left out.
    """
    found: dict[str, float] = {}
    for name, number in result.items() if isinstance(result, dict) else ():
        if type(number) in (int, float):
            try:
                found[name] = float(number)
            except OverflowError:
                continue
    return found
