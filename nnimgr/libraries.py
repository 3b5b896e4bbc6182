"""Checks whether libraries exist that only some parts of nnimgr need. Standard library only."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

__all__ = ["fault_of", "need"]

_NAMES = {"sklearn": "scikit-learn"}  # module -> library, where the names differ
_EXTRAS = {
    **dict.fromkeys(("numpy", "scipy", "sklearn", "optuna", "cmaes"), "tuners"),
    "smac": "smac",
}


def need(user: str, module: str) -> None:
    """Raise ModuleNotFoundError if the module does not exist. The module is not imported.

    ``user``: the part of nnimgr that needs the module, for the message.
    """
    if (fault := fault_of((module,))) is not None:
        raise ModuleNotFoundError(f"{user} {fault}")


def fault_of(modules: Iterable[str]) -> str | None:
    """Return a phrase that says which of these modules are missing in this Python; None if it has all."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            package = f"'nnimgr[{_EXTRAS[module]}]'" if module in _EXTRAS else module
            return (
                f"needs {_NAMES.get(module, module)}, which this Python does not have; install it with: "
                f"pip install {package}"
            )
    return None
