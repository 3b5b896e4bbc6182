"""Cache of chart results and of derived tables, for the columns of an experiment's trials.

A result is kept until the columns or the trials' tags change. A table is kept as long as the columns exist.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from nnimgr.analysis.columns import Columns
from nnimgr.store.bulk import Mark, Snapshot

__all__ = ["Following", "follow", "once"]

T = TypeVar("T")

_MOST_TABLES = 8  # largest number of tables; for example, a million metrics of one key take 24 MB
_MOST = 128  # largest number of results; for 100,000 trials a result takes at most half a megabyte


class Following(Protocol):
    """Interface of a table that is derived from an experiment's database and updated with its new facts."""

    def refresh(self, columns: Columns, snapshot: Snapshot, *, after: int) -> None:
        """Update this table with the changes in the database whose fact numbers are above ``after``."""


F = TypeVar("F", bound=Following)


class _Shelf:
    def __init__(self) -> None:
        self.results: OrderedDict[Hashable, Any] = OrderedDict()
        self.version = ("", -1, -1)
        self.tables: dict[type[Any], tuple[Mark, Any]] = {}


_SHELVES: WeakKeyDictionary[Columns, _Shelf] = WeakKeyDictionary()


def once(columns: Columns, key: Hashable, make: Callable[[], T]) -> T:
    """Return the result of ``make()``, which is cached under ``key`` until the columns or the trials' tags
    change.
    """
    shelf = _SHELVES.setdefault(columns, _Shelf())
    if shelf.version != columns.version:
        shelf.results.clear()
        shelf.version = columns.version
    if key in shelf.results:
        shelf.results.move_to_end(key)
    else:
        shelf.results[key] = make()
        if len(shelf.results) > _MOST:
            shelf.results.popitem(last=False)
    found: T = shelf.results[key]
    return found


def follow(columns: Columns, snapshot: Snapshot, kind: type[F]) -> F:
    """Return the cached table of the class ``kind``, after an update from the database ``snapshot``.

    The table is built again if the database was replaced.
    """
    shelf = _SHELVES.setdefault(columns, _Shelf())
    mark = snapshot.mark()
    # The table is removed before its update, so that a table whose update fails is not kept.
    held: tuple[Mark, F] | None = shelf.tables.pop(kind, None)
    if held is not None and (held[0].db_id != mark.db_id or held[0].last_number > mark.last_number):
        held = None
    kept, after = (kind(), 0) if held is None else (held[1], held[0].last_number)
    if held is None or after != mark.last_number:
        kept.refresh(columns, snapshot, after=after)
    shelf.tables[kind] = (mark, kept)
    if len(shelf.tables) > _MOST_TABLES:
        del shelf.tables[next(iter(shelf.tables))]  # the least recently used table
    return kept
