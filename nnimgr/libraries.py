"""Checks for libraries that only some parts of nnimgr need. Standard library only."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

__all__ = ["fault_of", "need"]

_NAMES = {"sklearn": "scikit-learn"}  # of libraries whose module has another name
_EXTRAS = {
    **dict.fromkeys(("numpy", "scipy", "sklearn", "optuna", "cmaes"), "tuners"),
    "smac": "smac",
}


def need(user: str, module: str) -> None:
    """Raise ModuleNotFoundError if the module does not exist. The module is not imported.

    ``user``: the part that needs the module.
    """
    if (fault := fault_of((module,))) is not None:
        raise ModuleNotFoundError(f"{user} {fault}")


def fault_of(modules: Iterable[str]) -> str | None:
    """Return what to say of a part of nnimgr that needs these modules.

    None if this Python has all of them.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            package = f"'nnimgr[{_EXTRAS[module]}]'" if module in _EXTRAS else module
            return (
                f"needs {_NAMES.get(module, module)}, which this Python does not have; install it with: "
                f"pip install {package}"
            )
    return None
