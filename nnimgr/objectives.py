"""Objectives of an experiment: one number, as in NNI, or several numbers that its configuration names.

With ``objectives: {accuracy: maximize, latency: minimize}``, a final result is a mapping with a finite number
under each name. If there is only one objective, the result may be the number alone. The first objective is
the *main* objective: its number is used wherever a single number is needed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from nnimgr.spelling import nearest

__all__ = [
    "DEFAULT",
    "Objectives",
    "fault_of",
    "finite",
    "main_value",
    "numbers_of",
    "objectives_of",
    "with_default",
]

Objectives = Mapping[str, str]
"""Name of each objective -> ``maximize`` or ``minimize``, in the order of the configuration.

Empty if the configuration names no objectives: a result is then a single number, as in NNI.
"""

_MOST_KEYS = 5  # of a result, in an error
DEFAULT = "default"  # NNI's key of the number in a result that is a mapping


def objectives_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the objectives of a configuration: name -> "maximize" or "minimize"."""
    return dict(config.get("objectives") or {})


def numbers_of(result: Any, objectives: Objectives) -> dict[str, float] | None:
    """Return the number of each objective in a trial's result. Return None if the result cannot be used."""
    if fault_of(result, objectives) is not None:
        return None
    named = _named(result, objectives)
    return {name: float(named[name]) for name in objectives}


def fault_of(result: Any, objectives: Objectives) -> str | None:
    """Return why a trial's final result cannot be used, such as 'is a mapping without "latency"', or None."""
    named = _named(result, objectives)
    if not isinstance(named, Mapping):
        wanted = ", ".join(objectives)
        return f"is {_shown(result)}, which is not a mapping with a number for each objective ({wanted})"
    for name in objectives:
        if name not in named:
            return f'is a mapping without "{name}"{_meant(name, named)}'
        subject = f'has as "{name}"' if named is result else "is"
        if type(named[name]) not in (int, float):
            return f"{subject} {_shown(named[name])}, which is not a number"
        if finite(named[name]) is None:
            return f"{subject} {_shown(named[name])}, which is not finite"
    return None


def main_value(text: str, number: float | None, objectives: Objectives, *, final: bool) -> float | None:
    """Return the number of the main objective in a metric that a trial has reported.

    ``text``: the metric as JSON text. ``number``: the number that NNI finds in the metric. Return None for a
    final metric if the number of any objective is missing. Return ``number`` for an intermediate metric
    without the main objective.
    """
    value = json.loads(text)
    if final:
        numbers = numbers_of(value, objectives)
        return None if numbers is None else next(iter(numbers.values()))
    main = next(iter(objectives))
    if isinstance(value, Mapping) and main in value:
        return finite(value[main])
    return number


def with_default(value: Any, objectives: Objectives) -> Any:
    """Return a result that has the main objective's number also under the key "default".

    Code that expects one number, as in NNI, can then use the result.
    """
    if not objectives or not isinstance(value, Mapping):
        return value
    main = next(iter(objectives))
    return {**value, DEFAULT: value[main]} if main in value else value


def _named(result: Any, objectives: Objectives) -> Any:
    if isinstance(result, Mapping) or len(objectives) != 1:
        return result
    return dict.fromkeys(objectives, result)


def _meant(name: str, result: Mapping[str, Any]) -> str:
    """Return which key of a result is probably meant by the name, or else its first keys, for an error."""
    if not result:
        return ""
    if (meant := nearest(name, result)) is not None:
        return f' (did you mean "{meant}"?)'
    keys = [f'"{key}"' for key in list(result)[:_MOST_KEYS]]
    return f" (it has {', '.join(keys)}{', ...' if len(result) > len(keys) else ''})"


def finite(number: Any) -> float | None:
    """Convert a number to a float. Return None for NaN, infinity, an integer beyond the range of a float, and
    anything that is not a number.
    """
    if type(number) not in (int, float):
        return None
    try:
        found = float(number)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
