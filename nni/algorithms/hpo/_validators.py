"""Validators of the built-in algorithms' arguments, under NNI's names."""

from __future__ import annotations

from typing import Any

from nnimgr.algorithm import ClassArgsValidator
from nnimgr.dispatcher import registry

__all__ = ["validator"]


def validator(role: str, name: str) -> type[ClassArgsValidator]:
    """Return the class that checks the arguments of a built-in algorithm."""

    class Validator(ClassArgsValidator):
        def validate_class_args(self, **kwargs: Any) -> None:
            """Raise ValueError if the algorithm does not take these arguments."""
            registry.check(role, name, kwargs)

    return Validator
