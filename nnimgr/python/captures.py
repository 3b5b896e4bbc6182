"""What a function or class uses from outside of itself: variables of the functions around it, and globals."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

__all__ = ["captured", "named"]

_MOST_NAMES = 5


def captured(trial: Callable[..., Any]) -> dict[str, Any]:
    """Return the values that a function or class uses from outside, by their names there.

    Modules are left out. The object of a bound method has the name ``self``.
    """
    if isinstance(trial, FunctionType):
        return _of_function(trial)
    if isinstance(trial, MethodType):
        return {"self": trial.__self__, **captured(trial.__func__)}
    if isinstance(trial, functools.partial):
        given = {f"argument {place}": value for place, value in enumerate(trial.args, start=1)}
        return {**given, **trial.keywords, **captured(trial.func)}
    found: dict[str, Any] = {}
    if isinstance(trial, type):
        for name, value in vars(trial).items():
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if isinstance(function, FunctionType):
                found |= _of_function(function)
            elif not name.startswith("__"):
                found[name] = value
    return found


def named(names: list[str]) -> str:
    """Return the first names as text, such as "data, model, ..."."""
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")


def _of_function(function: FunctionType) -> dict[str, Any]:
    code = function.__code__
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    for name in _names(code):
        value = function.__globals__.get(name, function)
        if value is not function and not isinstance(value, ModuleType):
            found[name] = value
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return {**found, **dict(zip(names, defaults, strict=True)), **(function.__kwdefaults__ or {})}


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that code uses, and those of the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
