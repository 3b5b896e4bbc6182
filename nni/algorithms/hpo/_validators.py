"""Classes that check the arguments of built-in algorithms, named as in NNI."""

from __future__ import annotations

from typing import Any

from nnimgr.algorithm import ClassArgsValidator
from nnimgr.dispatcher import registry

__all__ = ["validator"]


def validator(role: str, name: str) -> type[ClassArgsValidator]:
    """Return a class that checks the arguments of the built-in algorithm ``name``."""

    class Validator(ClassArgsValidator):
        def validate_class_args(self, **kwargs: Any) -> None:
            """Raise ValueError if the algorithm does not accept these arguments."""
            registry.check(role, name, kwargs)

    return Validator
