"""The sink of the examples keeps the contract that is shipped, and the guide shows its code."""

from __future__ import annotations

import ast
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from examples.sink import table
from examples.sink.table import TableSink
from nnimgr.sink import Sink
from nnimgr.testing import SinkConformance
from tests.sinks.test_conformance import CURVES

GUIDE = Path(__file__).parents[1] / "docs" / "how-to" / "sinks.md"


class TestTable(SinkConformance):
    def make(self, folder: Path) -> Sink:
        return TableSink(str(folder / "results.db"))

    def contents(self, folder: Path) -> Any:
        with closing(sqlite3.connect(folder / "results.db")) as database:
            reports = database.execute(
                "SELECT trial, step, value FROM reports ORDER BY trial, step"
            ).fetchall()
            trials = database.execute("SELECT trial, status, value FROM trials ORDER BY trial").fetchall()
        assert reports == [(trial, step, CURVES[trial][step]) for trial in CURVES for step in CURVES[trial]]
        assert trials == [
            (0, "SUCCEEDED", 0.5),
            (1, "SUCCEEDED", 0.7),
            (2, "EARLY_STOPPED", None),
            (3, "FAILED", None),
        ]
        return reports, trials


def test_the_guide_shows_the_methods_of_the_example() -> None:
    shown = next(
        block for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S) if "Sink" in block
    )
    source = ast.parse(Path(table.__file__).read_text())
    methods = {
        name: [ast.unparse(line) for line in body]
        for tree in (source, ast.parse(shown))
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and (name := f"{each.name} {tree is source}")
        for body in [each.body]
    }
    assert methods["write True"] == methods["write False"]
    assert methods["open True"] == methods["open False"]
