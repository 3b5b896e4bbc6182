"""Refuses unknown keyword arguments of the Python API, and names the argument that was probably meant."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from nnimgr.spelling import nearest

__all__ = ["checks_arguments"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Arguments of other libraries, in lower case -> the argument here.
_OTHER_WORDS = {
    **dict.fromkeys(("n_trials", "num_trials", "num_samples", "max_evals", "max_trials"), "trials"),
    **dict.fromkeys(("n_jobs", "concurrency", "max_concurrent", "parallel", "workers"), "at_once"),
    **dict.fromkeys(("timeout", "time_budget_s", "duration"), "hours"),
    **dict.fromkeys(("direction", "mode", "metric", "goal"), "maximize"),
    **dict.fromkeys(("sampler", "search_alg", "algo", "algorithm"), "tuner"),
    **dict.fromkeys(("search_space", "param_space", "params"), "space"),
    **dict.fromkeys(("study_name", "experiment_name"), "name"),
    **dict.fromkeys(("function", "objective", "func", "trainable"), "trial"),
    "pruner": "assessor",
    "port": "server",
}


def checks_arguments(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return the function, or ``__init__`` of a class, with a check of its keyword arguments.

    It raises TypeError for an unknown one.
    """
    name = function.__qualname__.removesuffix(".__init__")
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for word in kwargs:
            if word not in known:
                raise TypeError(_sentence(name, word, known))
        return function(*args, **kwargs)

    return checked


def _sentence(function: str, word: str, known: list[str]) -> str:
    meant = _OTHER_WORDS.get(word.lower())
    near = meant if meant in known else nearest(word, known)
    hint = "" if near is None else f"; did you mean {near}?"
    if function == "Experiment" and "server" in (word, meant):
        hint = "; give server to its method start()"
    return f"{function}() has no argument {word!r}{hint}"
