"""The questions that the analysis process can answer, each with the function that answers it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from nnimgr.analysis import arrow, exporting, paging, table
from nnimgr.analysis.columns import Columns
from nnimgr.analysis.curves import curves
from nnimgr.analysis.density import density
from nnimgr.analysis.history import history
from nnimgr.analysis.importance import importance
from nnimgr.analysis.parallel import parallel
from nnimgr.analysis.pareto import pareto
from nnimgr.analysis.rungs import rungs
from nnimgr.analysis.stopped import stopped
from nnimgr.analysis.timeline import timeline
from nnimgr.store.bulk import Snapshot, snapshot

__all__ = ["QUESTIONS", "Answers", "Question"]

Question = Callable[[Columns, Snapshot, Mapping[str, Any]], bytes]
"""Function that answers one kind of question. It returns the answer's bytes, or raises BadQuestion.

Its arguments are the columns of the experiment's trials, a snapshot of its database, and the arguments of the
question. The columns are as new as the snapshot, and must not be changed.
"""

QUESTIONS: Mapping[str, Question] = {
    "columns": table.changed_columns,
    "schema": table.schema,
    "page": paging.page,
    "export": exporting.export,
    "export_page": exporting.export_page,
    "arrow": arrow.arrow,
    "arrow_page": arrow.arrow_page,
    "parallel": parallel,
    "curves": curves,
    "density": density,
    "importance": importance,
    "history": history,
    "timeline": timeline,
    "stopped": stopped,
    "pareto": pareto,
    "rungs": rungs,
}

_KEPT = 4  # largest number of experiments whose columns stay in memory


class Answers:
    """Keeps the columns of recently used experiments in memory, and answers questions from them."""

    def __init__(self) -> None:
        self._columns: OrderedDict[tuple[str, str], Columns] = OrderedDict()

    def answer(self, database: str, experiment_id: str, question: str, arguments: Mapping[str, Any]) -> bytes:
        """Update the experiment's columns from its database, and return the answer to the question.

        Raise BadQuestion, StoreError or FileNotFoundError.
        """
        with snapshot(database, experiment_id) as taken:
            columns = self._columns.pop((database, experiment_id), None)
            columns = Columns() if columns is None else columns
            columns.refresh(taken)  # if the update fails, the columns are not kept
            self._columns[database, experiment_id] = columns
            if len(self._columns) > _KEPT:
                self._columns.popitem(last=False)
            return QUESTIONS[question](columns, taken, arguments)
