"""What the cache keeps between questions, and for how long."""

from __future__ import annotations

from nnimgr.analysis import cache
from nnimgr.analysis.cache import Following, follow, once
from nnimgr.analysis.columns import Columns
from nnimgr.store.bulk import Snapshot
from tests.analysis.given import GivenColumns, GivenSnapshot


class Table:
    def refresh(self, columns: Columns, snapshot: Snapshot, *, after: int) -> None:
        pass


def test_the_tables_that_were_asked_for_last_are_kept() -> None:
    columns, taken = GivenColumns(1), GivenSnapshot().taken
    kinds: list[type[Following]] = [type("Table", (Table,), {}) for _ in range(cache._MOST_TABLES)]
    made = [follow(columns, taken, kind) for kind in kinds]
    assert follow(columns, taken, kinds[0]) is made[0]
    follow(columns, taken, Table)
    assert follow(columns, taken, kinds[0]) is made[0]
    assert follow(columns, taken, kinds[1]) is not made[1]


def test_no_result_of_another_database_is_used() -> None:
    """An experiment that was deleted and created again may have as many facts as before."""
    columns = GivenColumns(1)
    assert [once(columns, "rows", lambda: 4), once(columns, "rows", lambda: 5)] == [4, 4]
    columns._db_id = "another"
    assert once(columns, "rows", lambda: 5) == 5
