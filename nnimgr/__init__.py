"""Experiment manager that is compatible with NNI, loses no results, never polls, and explains failures.

``import nnimgr`` is quick: the names of the Python API are loaded when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nnimgr.python import space as space
    from nnimgr.python.asked import AskedTrial as AskedTrial
    from nnimgr.python.definition import Experiment as Experiment
    from nnimgr.python.errors import ArgumentError as ArgumentError
    from nnimgr.python.errors import Ended as Ended
    from nnimgr.python.errors import Error as Error
    from nnimgr.python.errors import LateResult as LateResult
    from nnimgr.python.errors import NoResult as NoResult
    from nnimgr.python.results import Results as Results
    from nnimgr.python.running import Run as Run
    from nnimgr.python.study import Study as Study
    from nnimgr.python.trials import Trial as Trial
    from nnimgr.python.tuning import tune as tune

__all__ = [
    "ArgumentError",
    "AskedTrial",
    "Ended",
    "Error",
    "Experiment",
    "LateResult",
    "NoResult",
    "Results",
    "Run",
    "Study",
    "Trial",
    "space",
    "tune",
]

__version__ = "0.2.0"

_MODULES = {
    "ArgumentError": "errors",
    "AskedTrial": "asked",
    "Ended": "errors",
    "Error": "errors",
    "Experiment": "definition",
    "LateResult": "errors",
    "NoResult": "errors",
    "Results": "results",
    "Run": "running",
    "Study": "study",
    "Trial": "trials",
    "tune": "tuning",
}


def __getattr__(name: str) -> object:
    """Load a name of the Python API when it is first used (PEP 562). Raise AttributeError for others."""
    import importlib

    if name == "space":
        found: object = importlib.import_module("nnimgr.python.space")
    elif name in _MODULES:
        found = getattr(importlib.import_module(f"nnimgr.python.{_MODULES[name]}"), name)
    else:
        raise AttributeError(f"module 'nnimgr' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
