"""The export as an Arrow stream, read back with pyarrow."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nnimgr.analysis.questions import Answers
from nnimgr.home import Home
from nnimgr.importing.experiment import create_imported
from nnimgr.importing.trials import Foreigners
from nnimgr.python.frames import table_of
from nnimgr.store.location import database_path
from tests.importing.test_experiment import TRIALS, at, configured

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

ORDER: dict[str, Any] = {"sort": "sequence", "descending": False, "filter": ""}


def stream(answers: Answers, database: str, experiment_id: str, *, columns: str = "", page: int = 3) -> bytes:
    """Return the whole stream, in pages of a few trials."""

    def ask(question: str, **arguments: Any) -> bytes:
        return answers.answer(database, experiment_id, question, arguments)

    found = json.loads(ask("arrow", columns=columns, **ORDER))
    pages: list[list[int]] = [[]]
    pages += [found["sequences"][begin : begin + page] for begin in range(0, len(found["sequences"]), page)]
    messages = [ask("arrow_page", sequences=each, fields=found["fields"]) for each in pages]
    return b"".join([*messages, b"\xff\xff\xff\xff\0\0\0\0"])


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setenv("NNIMGR_HOME", str(tmp_path / "home"))
    home = Home.find()
    trials = [
        dataclasses.replace(
            trial,
            parameters={
                "x": trial.parameters["x"],
                "n": number,
                "c": ["a", 1][number % 2],
                "none_or_3": [None, 3][number % 2],
                "mixed": [None, True, 1, "a"][number],
            },
        )
        for number, trial in enumerate(TRIALS)
    ]
    entry = create_imported(home, configured(home), Foreigners(title="a test", trials=trials))
    return str(database_path(entry.directory)), entry.id


def test_a_table_has_a_row_for_each_trial(database: tuple[str, str]) -> None:
    table = table_of(lambda: stream(Answers(), *database))
    assert table.column_names[:6] == ["number", "id", "x", "n", "c", "none_or_3"]
    assert {
        name: str(table.schema.field(name).type) for name in ("number", "x", "n", "c", "value", "started")
    } == {
        "number": "int64",
        "x": "double",
        "n": "int64",
        "c": "string",
        "value": "double",
        "started": "timestamp[us, tz=UTC]",
    }
    rows = table.to_pylist()
    assert [row["number"] for row in rows] == [0, 1, 2, 3]
    assert [row["x"] for row in rows] == [trial.parameters["x"] for trial in TRIALS]
    assert [(row["n"], row["c"]) for row in rows[:2]] == [(0, "a"), (1, "1")]
    assert [row["value"] for row in rows] == [0.9, None, None, None]
    assert [row["status"] for row in rows] == [str(trial.status) for trial in TRIALS]
    assert rows[0]["started"] == at(2) and rows[2]["started"] is None
    assert rows[0]["ended"] == datetime.fromtimestamp(at(9).timestamp(), UTC)


def test_none_is_a_missing_value(database: tuple[str, str]) -> None:
    table = table_of(lambda: stream(Answers(), *database))
    assert str(table.schema.field("none_or_3").type) == "int64"
    assert table.column("none_or_3").to_pylist() == [None, 3, None, 3]
    assert table.column("mixed").to_pylist() == [None, "true", "1", "a"]


def test_chosen_columns(database: tuple[str, str]) -> None:
    import pyarrow.ipc

    content = stream(Answers(), *database, columns="id,parameters.x")
    table = pyarrow.ipc.open_stream(content).read_all()
    assert table.column_names == ["id", "parameters.x"] and table.num_rows == 4
