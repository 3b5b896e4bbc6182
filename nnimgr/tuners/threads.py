"""Limit of linear algebra to one thread.

One thread is faster for small matrices, and its results do not depend on the number of cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra in one thread within this context.

    This applies only to libraries that were loaded before the first use of this function.
    """
    with _controller().limit(limits=1):
        yield


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
