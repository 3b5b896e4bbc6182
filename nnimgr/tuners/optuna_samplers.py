"""Names and properties of Optuna's supported samplers, available without importing Optuna."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

__all__ = ["NEEDS", "SAMPLERS", "fault_of_arguments", "fault_of_sampler", "sampler_class"]

SAMPLERS = {
    "TPESampler": True,
    "GPSampler": True,
    "CmaEsSampler": False,
    "NSGAIISampler": True,
    "NSGAIIISampler": True,
    "QMCSampler": True,
    "RandomSampler": True,
}
"""Names of classes, and whether they take several objectives."""

NEEDS = {"CmaEsSampler": "cmaes", "GPSampler": "torch", "QMCSampler": "scipy"}
"""Further libraries that the samplers need."""

_SUFFIX = "Sampler"
_NOT_HERE = {
    "gridsampler": "use the tuner GridSearch",
    "bruteforcesampler": "use the tuner GridSearch",
    "partialfixedsampler": "remove the fixed parameters from the search space",
}


def sampler_class(name: str) -> str | None:
    """Return the name of the sampler's class for a short or full name, such as "tpe" or "TPESampler".

    Return None if there is no such sampler.
    """
    return {_plain(known): known for known in SAMPLERS}.get(_plain(name))


def fault_of_sampler(value: Any) -> str | None:
    """Return why the value is not the name of a supported sampler, or None if it is one."""
    if isinstance(value, str) and sampler_class(value) is not None:
        return None
    known = [name.removesuffix(_SUFFIX) for name in SAMPLERS]
    wanted = f"must be one of {', '.join(known)}"
    if not isinstance(value, str):
        return wanted
    if _plain(value) in _NOT_HERE:
        return f"{wanted} ({_NOT_HERE[_plain(value)]})"
    lowered = {name.lower(): name for name in known}
    near = difflib.get_close_matches(_plain(value).removesuffix(_SUFFIX.lower()), lowered, n=1, cutoff=0.5)
    return f"{wanted} (did you mean {lowered[near[0]]}?)" if near else wanted


def fault_of_arguments(arguments: Mapping[str, Any], several: bool) -> tuple[tuple[str, ...], str] | None:
    """Return an error in the combination of ``classArgs``, each of which is valid alone, or None.

    The error is the path to the argument and a text. ``several``: whether the experiment has several
    objectives.
    """
    if "seed" in (arguments.get("sampler_args") or {}):
        return (
            "sampler_args",
            "seed",
        ), "seed is an argument of the tuner: move it from sampler_args to classArgs"
    name = sampler_class(arguments.get("sampler") or "TPE")
    if several and name is not None and not SAMPLERS[name]:
        able = ", ".join(each.removesuffix(_SUFFIX) for each, takes in SAMPLERS.items() if takes)
        return ("sampler",), f"{name} optimizes one objective; several can be given to {able}"
    return None


def _plain(name: str) -> str:
    name = name.lower().replace("-", "").replace("_", "")
    return name if name.endswith(_SUFFIX.lower()) else name + _SUFFIX.lower()
