"""Parameters of a search space, for Python::

    from nnimgr import space

    SPACE = {
        "lr": space.loguniform(1e-5, 1e-1),
        "layers": space.randint(1, 5),  # 1, 2, 3 or 4
        "optimizer": space.choice({"sgd": {"momentum": space.uniform(0, 1)}, "adam": {}}),
    }

Each function returns a parameter in NNI's format, as in ``exp.yml``, so both forms can be mixed. A parameter
that is a text, a number or a truth value has only this value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "Parameter",
    "choice",
    "lognormal",
    "loguniform",
    "normal",
    "plain",
    "qlognormal",
    "qloguniform",
    "qnormal",
    "quniform",
    "randint",
    "uniform",
]

Parameter = dict[str, Any]
"""Parameter in NNI's format: its ``_type`` and its ``_value``."""


def choice(options: Sequence[Any] | Mapping[str, Mapping[str, Any]]) -> Parameter:
    """Return a parameter whose value is one of the options.

    A mapping is a nested choice: it has a search space for each name. The value of the parameter is then
    ``{"_name": name, ...}``, with the parameters of the chosen search space.
    """
    if isinstance(options, Mapping):
        return _parameter("choice", [{"_name": name, **plain(inner)} for name, inner in options.items()])
    if isinstance(options, str | bytes):
        raise TypeError(f"choice() takes a list of options, not the text {options!r}: choice([{options!r}])")
    return _parameter("choice", list(options))


def randint(low: int, high: int) -> Parameter:
    """Return a parameter whose value is an integer from ``low`` to ``high - 1``."""
    return _parameter("randint", [low, high])


def uniform(low: float, high: float) -> Parameter:
    """Return a parameter whose value is a number between ``low`` and ``high``."""
    return _parameter("uniform", [low, high])


def quniform(low: float, high: float, q: float) -> Parameter:
    """Return a parameter like ``uniform`` whose value is rounded to a multiple of ``q``."""
    return _parameter("quniform", [low, high, q])


def loguniform(low: float, high: float) -> Parameter:
    """Return a parameter whose value is between ``low`` and ``high``, and whose logarithm is uniform."""
    return _parameter("loguniform", [low, high])


def qloguniform(low: float, high: float, q: float) -> Parameter:
    """Return a parameter like ``loguniform`` whose value is rounded to a multiple of ``q``."""
    return _parameter("qloguniform", [low, high, q])


def normal(mean: float, deviation: float) -> Parameter:
    """Return a parameter whose value has a normal distribution."""
    return _parameter("normal", [mean, deviation])


def qnormal(mean: float, deviation: float, q: float) -> Parameter:
    """Return a parameter like ``normal`` whose value is rounded to a multiple of ``q``."""
    return _parameter("qnormal", [mean, deviation, q])


def lognormal(mean: float, deviation: float) -> Parameter:
    """Return a parameter whose value's logarithm has a normal distribution with these values."""
    return _parameter("lognormal", [mean, deviation])


def qlognormal(mean: float, deviation: float, q: float) -> Parameter:
    """Return a parameter like ``lognormal`` whose value is rounded to a multiple of ``q``."""
    return _parameter("qlognormal", [mean, deviation, q])


def plain(space: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search space in NNI's format. A constant becomes a choice with one option."""
    return {
        name: choice([value]) if isinstance(value, str | int | float) and name != "_name" else value
        for name, value in space.items()
    }


def _parameter(kind: str, value: list[Any]) -> Parameter:
    return {"_type": kind, "_value": value}
