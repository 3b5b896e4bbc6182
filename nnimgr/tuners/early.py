"""Import of a large module before it is needed, while no trial waits for the tuner."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cache
from importlib import import_module

__all__ = ["import_early"]


@cache
def import_early(name: str) -> None:
    """Begin to import a module in another thread. Further calls do nothing.

    An ``import`` statement for the module waits for this thread, and raises what is wrong with the module.
    """
    threading.Thread(target=_import, args=(name,), name=f"import-{name}", daemon=True).start()


def _import(name: str) -> None:
    with suppress(Exception):
        import_module(name)
