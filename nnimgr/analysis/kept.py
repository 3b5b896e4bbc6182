"""What questions keep beside an experiment's columns: for as long as these live, or until they change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from nnimgr.analysis.columns import Columns
from nnimgr.store.bulk import Mark, Snapshot

__all__ = ["Following", "follow", "once"]

T = TypeVar("T")

_MOST_TABLES = 8  # such as the metrics of one key: of a million metrics 24 megabytes
_MOST = 128  # results of one revision: of 100,000 trials half a megabyte each, at most


class Following(Protocol):
    """A table of its own that is brought up to date by what is new in the database."""

    def refresh(self, columns: Columns, snapshot: Snapshot, *, after: int) -> None:
        """Take in what has a higher number than ``after``."""


F = TypeVar("F", bound=Following)


class _Shelf:
    def __init__(self) -> None:
        self.results: OrderedDict[Hashable, Any] = OrderedDict()
        self.revision = -1
        self.tables: dict[type[Any], tuple[Mark, Any]] = {}


_SHELVES: WeakKeyDictionary[Columns, _Shelf] = WeakKeyDictionary()


def once(columns: Columns, key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` gives, which is made once per revision of the columns."""
    shelf = _SHELVES.setdefault(columns, _Shelf())
    if shelf.revision != columns.revision:
        shelf.results.clear()
        shelf.revision = columns.revision
    if key in shelf.results:
        shelf.results.move_to_end(key)
    else:
        shelf.results[key] = make()
        if len(shelf.results) > _MOST:
            shelf.results.popitem(last=False)
    found: T = shelf.results[key]
    return found


def follow(columns: Columns, snapshot: Snapshot, kind: type[F]) -> F:
    """The table of this kind, as new as the snapshot; made anew for another database."""
    shelf = _SHELVES.setdefault(columns, _Shelf())
    mark = snapshot.mark()
    held: tuple[Mark, F] | None = shelf.tables.pop(kind, None)  # what fails halfway is not kept
    if held is not None and (held[0].db_id != mark.db_id or held[0].last_number > mark.last_number):
        held = None
    kept, after = (kind(), 0) if held is None else (held[1], held[0].last_number)
    if held is None or after != mark.last_number:
        kept.refresh(columns, snapshot, after=after)
    shelf.tables[kind] = (mark, kept)
    if len(shelf.tables) > _MOST_TABLES:
        del shelf.tables[next(iter(shelf.tables))]  # it was asked for least lately
    return kept
