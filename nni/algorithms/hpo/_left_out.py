"""Placeholders for NNI's algorithms that nnimgr does not have.

They can be imported, but creating an object raises an error.
"""

from __future__ import annotations

from typing import Any

from nnimgr.algorithm import ClassArgsValidator, Tuner
from nnimgr.dispatcher import registry

__all__ = ["left_out", "left_out_validator"]


def left_out(name: str) -> Any:
    """Return a placeholder class for a tuner that nnimgr does not have.

    Its constructor raises AlgorithmError, which names an alternative.
    """

    class LeftOut(Tuner):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            registry.find("tuner", name)

    LeftOut.__name__ = LeftOut.__qualname__ = name
    return LeftOut


def left_out_validator(name: str) -> type[ClassArgsValidator]:
    """Return a validator class for a tuner that nnimgr does not have.

    Its check raises AlgorithmError, which names an alternative.
    """

    class Validator(ClassArgsValidator):
        def validate_class_args(self, **kwargs: Any) -> None:
            registry.find("tuner", name)

    return Validator
