"""Algorithms of NNI that nnimgr does not have. The classes can be imported, but not created."""

from __future__ import annotations

from typing import Any

from nnimgr.algorithm import ClassArgsValidator, Tuner
from nnimgr.dispatcher import registry

__all__ = ["left_out", "left_out_validator"]


def left_out(name: str) -> Any:
    """Return a tuner class whose constructor raises AlgorithmError, which says what to use instead."""

    class LeftOut(Tuner):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            registry.find("tuner", name)

    LeftOut.__name__ = LeftOut.__qualname__ = name
    return LeftOut


def left_out_validator(name: str) -> type[ClassArgsValidator]:
    """Return a validator that raises AlgorithmError, which says what to use instead of the tuner."""

    class Validator(ClassArgsValidator):
        def validate_class_args(self, **kwargs: Any) -> None:
            registry.find("tuner", name)

    return Validator
