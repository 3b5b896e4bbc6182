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

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nnimgr.python.errors import ArgumentError

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

_SHOWN = 40  # most characters of a wrong value in a message

Parameter = dict[str, Any]
"""Parameter in NNI's format: its ``_type`` and its ``_value``."""


def choice(options: Sequence[Any] | Mapping[str, Mapping[str, Any]], *others: Any) -> Parameter:
    """Return a parameter whose value is one of the options.

    A mapping is a nested choice: it has a search space for each name. The value of the parameter is then
    ``{"_name": name, ...}``, with the parameters of the chosen search space. Raise TypeError for options that
    are not in a list, such as ``others``.
    """
    if others:
        raise TypeError(f"choice() takes one list of options: choice({[options, *others]!r})")
    if isinstance(options, Mapping):
        return _parameter("choice", [{"_name": name, **plain(inner)} for name, inner in options.items()])
    if isinstance(options, str | bytes):
        raise TypeError(f"choice() takes a list of options, not the text {options!r}: choice([{options!r}])")
    if not isinstance(options, Iterable):
        raise TypeError(f"choice() takes a list of options, not {options!r}: choice([{options!r}])")
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


def plain(space: Any) -> dict[str, Any]:
    """Return a search space in NNI's format. A constant becomes a choice with one option.

    Raise ArgumentError for a value that is neither a constant nor a parameter.
    """
    if not isinstance(space, Mapping):
        example = '{"lr": nnimgr.space.uniform(0, 1)}'
        raise ArgumentError(f"space: must be a mapping of names to parameters, such as {example}")
    for name in space:
        if not isinstance(name, str):
            raise ArgumentError(f"space: the name of a parameter must be a text, not {name!r}")
    return {name: value if name == "_name" else _described(name, value) for name, value in space.items()}


def _described(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if "_type" in value:
            return value
        fault = f'{_shown(value)} has no "_type"'
    elif isinstance(value, str | int | float) or getattr(value, "shape", None) == ():  # also a numpy scalar
        return choice([value])
    elif isinstance(value, list | tuple) and value:
        shown = repr(list(value))
        offer = f"nnimgr.space.choice({shown if len(shown) <= _SHOWN else '[...]'}) for one of these values"
        if len(value) == 2 and all(isinstance(each, int | float) for each in value):
            low, high = value
            offer += f", or nnimgr.space.uniform({low!r}, {high!r}) for a number between them"
        raise ArgumentError(f'space["{name}"]: {_shown(value)} describes no parameter; write {offer}')
    else:
        fault = f"a value of type {type(value).__name__} describes no parameter"
    raise ArgumentError(
        f'space["{name}"]: {fault}; write nnimgr.space.uniform(0, 1), nnimgr.space.choice(["a", "b"]) or '
        "another function of nnimgr.space"
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _parameter(kind: str, value: list[Any]) -> Parameter:
    return {"_type": kind, "_value": value}
