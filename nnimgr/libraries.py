"""Checks whether optional libraries are installed, which only some parts of nnimgr need.

Standard library only.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

__all__ = ["fault_of", "need"]

_NAMES = {"sklearn": "scikit-learn"}  # module -> library, where the names differ
_EXTRAS = {
    **dict.fromkeys(("numpy", "scipy", "sklearn", "optuna", "cmaes"), "tuners"),
    "fsspec": "storage",
    "smac": "smac",
    "tensorboard": "tensorboard",
    "mlflow": "mlflow",
    "wandb": "wandb",
    "pyarrow": "arrow",
}


def need(user: str, module: str) -> None:
    """Raise ModuleNotFoundError if a module is not installed. The module is not imported.

    ``user``: the part of nnimgr that needs the module. It begins the message.
    """
    if (fault := fault_of((module,))) is not None:
        raise ModuleNotFoundError(f"{user} {fault}")


def fault_of(modules: Iterable[str]) -> str | None:
    """Return a phrase about the first of these modules that is not installed. Return None if all are."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            package = f"'nnimgr[{_EXTRAS[module]}]'" if module in _EXTRAS else module
            return (
                f"needs {_NAMES.get(module, module)}, which this Python does not have; install it with: "
                f"pip install {package}"
            )
    return None
