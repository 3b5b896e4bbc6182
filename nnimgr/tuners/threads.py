"""Linear algebra in one thread: faster for small matrices, and equal results on any number of cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread in this context, for libraries that were loaded before its first
    use.
    """
    with _controller().limit(limits=1):
        yield


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
