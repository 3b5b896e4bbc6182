"""Checks for libraries that only some algorithms need. Standard library only."""

from __future__ import annotations

import importlib.util

__all__ = ["missing", "need"]


def need(user: str, module: str, *, library: str | None = None, package: str | None = None) -> None:
    """Raise ModuleNotFoundError if the module does not exist. The module is not imported.

    ``user``: the part that needs the ``library``, which is in the ``package``. Both default to the name of
    the module.
    """
    if importlib.util.find_spec(module) is None:
        raise missing(f"{user} needs", library or module, package=package)


def missing(needs: str, library: str, *, package: str | None = None) -> ModuleNotFoundError:
    """Build the error for a missing library. ``needs``: the sentence up to the library's name."""
    return ModuleNotFoundError(
        f"{needs} {library}, which this Python does not have: install it with "
        f"`pip install {package or library}`"
    )
