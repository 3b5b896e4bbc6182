"""NNI's setting for its modules of deep learning frameworks. Nothing in nnimgr depends on it."""

from __future__ import annotations

import importlib
import os
import sys

__all__ = ["get_default_framework", "set_default_framework", "shortcut_framework", "shortcut_module"]

ENV_NNI_FRAMEWORK = "NNI_FRAMEWORK"
_FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "none")


def framework_from_env() -> str:
    """Return the framework in the variable NNI_FRAMEWORK, or "pytorch". Raise ValueError."""
    return _checked(os.environ.get(ENV_NNI_FRAMEWORK, "pytorch"))


def _checked(framework: str) -> str:
    if framework not in _FRAMEWORKS:
        raise ValueError(f"the framework {framework!r} must be one of {', '.join(_FRAMEWORKS)}")
    return framework


DEFAULT_FRAMEWORK = framework_from_env()


def set_default_framework(framework: str | None) -> None:
    """Set the framework that ``get_default_framework`` returns. Raise ValueError for others."""
    global DEFAULT_FRAMEWORK
    DEFAULT_FRAMEWORK = _checked(framework or "none")


def get_default_framework() -> str:
    """Return the framework that a script or the variable NNI_FRAMEWORK has set; by default "pytorch"."""
    return DEFAULT_FRAMEWORK


def shortcut_module(current: str, target: str, package: str | None = None) -> None:
    """Make the module ``current`` contain the names of the module ``target``."""
    found = importlib.import_module(target, package)
    names = getattr(found, "__all__", None) or [name for name in vars(found) if name[0] != "_"]
    vars(sys.modules[current]).update({name: getattr(found, name) for name in names})


def shortcut_framework(current: str) -> None:
    """Make the module ``current`` contain the names of its submodule for the framework."""
    if get_default_framework() != "none":
        shortcut_module(current, f".{get_default_framework()}", current)
