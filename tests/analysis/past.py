"""Scripted pasts of experiments in real databases, and their columns."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import Columns
from nnimgr.rules import facts as f
from nnimgr.rules.state import Touched, trial_id_of
from nnimgr.store.bulk import snapshot
from nnimgr.store.location import database_path
from nnimgr.store.writer import ExperimentWriter
from tests.rules.driver import Life

SPACE: dict[str, Any] = {
    "lr": {"_type": "loguniform", "_value": [1e-5, 1]},
    "layers": {"_type": "randint", "_value": [1, 9]},
    "act": {"_type": "choice", "_value": ["relu", "tanh"]},
}
SECOND = timedelta(seconds=1)


class Past(Life):
    """A life whose trials the test suggests itself, and which can be saved. Ten trials run at once."""

    def __init__(self, directory: Path, space: Mapping[str, Any] = SPACE) -> None:
        self._space = space
        self._turns: list[tuple[list[f.Recorded], Touched]] = []
        self.database = str(database_path(directory))
        self._writer = ExperimentWriter(directory)
        super().__init__(tuner=False, trial_concurrency=10)

    def take(self, *facts: f.Fact, after: timedelta = timedelta(0)) -> list[f.Fact]:
        start = len(self.log)
        taken = super().take(
            *(
                dataclasses.replace(fact, search_space=self._space)
                if isinstance(fact, f.ExperimentCreated)
                else fact
                for fact in facts
            ),
            after=after,
        )
        if taken:
            self._turns.append((self.log[start:], self.touched))
        return taken

    def suggest(self, *sets: Mapping[str, Any] | str) -> None:
        """Add trials with these parameters (or JSON texts). They start at once while there is room."""
        for parameters in sets:
            sequence = self.state.next_sequence
            self.take(
                f.Suggested(
                    trial_id=trial_id_of("exp", sequence),
                    sequence=sequence,
                    source=f.SuggestionSource.CUSTOMIZED,
                    parameter_id=None,
                    parameters=parameters if isinstance(parameters, str) else json.dumps(parameters),
                )
            )

    def report(self, sequence: int, position: int, text: str, kind: str = "FINAL", attempt: int = 1) -> None:
        """Add a metric as a trial writes it."""
        written = json.loads(text)
        value: Any = written.get("default") if isinstance(written, dict) else written
        number = float(value) if type(value) in (int, float) and math.isfinite(value) else None
        self.take(f.MetricReported(self.job(sequence, attempt), position, kind, 0, None, number, text))

    def finish(self, sequence: int, text: str, *, after: timedelta = SECOND) -> None:
        """Start a trial, report this final metric, and end it."""
        self.start(sequence)
        self.report(sequence, 0, text)
        self.now += after
        self.end(sequence)

    async def write(self) -> None:
        if not self._writer.db_id:
            await self._writer.open()
        turns, self._turns = self._turns, []
        for turn, touched in turns:
            await self._writer.append(self.state, turn, touched)

    async def close(self) -> None:
        await self._writer.close()

    def refresh(self, columns: Columns | None = None) -> Columns:
        """Return columns, new or updated, of the saved past."""
        columns = Columns() if columns is None else columns
        with snapshot(self.database, "exp") as taken:
            columns.refresh(taken)
        return columns


def shown(columns: Columns, name: str) -> list[Any]:
    """Return a column as a list of values, None for missing ones."""
    values: Sequence[Any] = columns.arrays[name].tolist()
    if name in columns.categories:
        known = dict(enumerate(columns.categories[name]))
        values = [known.get(code) for code in values]
    return [value if there else None for value, there in zip(values, columns.present(name), strict=True)]


def everything(columns: Columns) -> dict[str, Any]:
    """Return the contents of columns in a form that can be compared. Columns without a value are left out."""
    ids: Array = columns.ids
    return {name: shown(columns, name) for name in columns.arrays if columns.present(name).any()} | {
        "ids": ids.tolist(),
        "revision": columns.revision,
        "origin_at": columns.origin_at,
    }
