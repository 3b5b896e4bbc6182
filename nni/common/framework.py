"""NNI's setting for the deep learning framework, such as "pytorch". nnimgr itself does not use this
setting.
"""

from __future__ import annotations

import importlib
import os
import sys

__all__ = ["get_default_framework", "set_default_framework", "shortcut_framework", "shortcut_module"]

ENV_NNI_FRAMEWORK = "NNI_FRAMEWORK"
_FRAMEWORKS = ("pytorch", "tensorflow", "mxnet", "none")


def framework_from_env() -> str:
    """Return the framework that the environment variable NNI_FRAMEWORK names, by default "pytorch".

    Raise ValueError if NNI does not know that framework.
    """
    return _checked(os.environ.get(ENV_NNI_FRAMEWORK, "pytorch"))


def _checked(framework: str) -> str:
    if framework not in _FRAMEWORKS:
        raise ValueError(f"the framework {framework!r} must be one of {', '.join(_FRAMEWORKS)}")
    return framework


DEFAULT_FRAMEWORK = framework_from_env()


def set_default_framework(framework: str | None) -> None:
    """Set the framework that ``get_default_framework`` returns.

    Raise ValueError if NNI does not know the framework.
    """
    global DEFAULT_FRAMEWORK
    DEFAULT_FRAMEWORK = _checked(framework or "none")


def get_default_framework() -> str:
    """Return the framework that was set by ``set_default_framework`` or NNI_FRAMEWORK, by default
    "pytorch".
    """
    return DEFAULT_FRAMEWORK


def shortcut_module(current: str, target: str, package: str | None = None) -> None:
    """Copy the public names of the module ``target`` into the module ``current``."""
    found = importlib.import_module(target, package)
    names = getattr(found, "__all__", None) or [name for name in vars(found) if name[0] != "_"]
    vars(sys.modules[current]).update({name: getattr(found, name) for name in names})


def shortcut_framework(current: str) -> None:
    """Copy the public names of the submodule for the framework, such as ``current.pytorch``, into
    ``current``.
    """
    if get_default_framework() != "none":
        shortcut_module(current, f".{get_default_framework()}", current)
