"""Functions that check an argument of an algorithm, or build such a check.

A check returns an error text, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "Arguments",
    "Fault",
    "boolean",
    "integer",
    "mapping",
    "nothing",
    "number",
    "one_of",
    "optimize_mode",
    "text",
]

# check of a value, which returns an error text such as "must be true or false", or None
Fault = Callable[[Any], str | None]
Arguments = Mapping[str, "Fault | Arguments"]  # argument -> check, or the checks of its entries


def one_of(*valid: str | None) -> Fault:
    shown = ", ".join("null" if each is None else each for each in valid)

    def fault(value: Any) -> str | None:
        return None if value in valid else f"must be one of {shown}"

    return fault


def integer(*, at_least: int | None = None, at_most: int | None = None, or_null: bool = False) -> Fault:
    wanted = "must be an integer" + (f" of at least {at_least}" if at_least is not None else "")
    wanted += f" and at most {at_most}" if at_most is not None else ""
    wanted += " or null" if or_null else ""

    def fault(value: Any) -> str | None:
        if value is None and or_null:
            return None
        fits = isinstance(value, int) and not isinstance(value, bool)
        fits = fits and (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
        return None if fits else wanted

    return fault


def mapping(value: Any) -> str | None:
    return None if value is None or isinstance(value, Mapping) else "must be a mapping of names to values"


def number(
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    or_null: bool = False,
) -> Fault:
    wanted = "must be a finite number"
    wanted += f" above {above:g}" if above is not None else ""
    wanted += f" of at least {at_least:g}" if at_least is not None else ""
    if at_most is not None:
        wanted += f"{' of' if above is None and at_least is None else ' and'} at most {at_most:g}"
    wanted += " or null" if or_null else ""

    def fault(value: Any) -> str | None:
        if value is None and or_null:
            return None
        fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf
        fits = fits and (above is None or value > above) and (at_least is None or value >= at_least)
        fits = fits and (at_most is None or value <= at_most)
        return None if fits else wanted

    return fault


def text(value: Any) -> str | None:
    return None if value is None or (isinstance(value, str) and value) else "must be a text or null"


def nothing(value: Any) -> str | None:
    return None if value is None else "cannot be used here and must be null"


def boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


optimize_mode = one_of("minimize", "maximize")
