"""A folder belongs to one sink of one experiment."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from nnimgr.sink import Experiment, SinkError
from nnimgr.sinks.appended import CURSOR, AppendedFiles
from tests.sinks.experiments import experiment


def used(folder: Path) -> Path:
    """Return the folder with what the sink "csv" of the experiment "abc" has written."""
    files = AppendedFiles(folder, experiment("abc"), sink="csv")
    files.open()
    files.commit(3, {"trials.csv": [b"1\n"]})
    return folder


@pytest.mark.parametrize(
    ("other", "sink", "told"),
    [
        (experiment("xyz"), "csv", "the events of experiment abc, and each experiment"),
        (
            experiment("abc", later=timedelta(hours=1)),
            "csv",
            "the events of an earlier experiment abc, and each experiment",
        ),
        (experiment("abc"), "jsonl", "the files of the sink csv, and each sink"),
    ],
)
def test_a_folder_that_is_in_use_is_refused(tmp_path: Path, other: Experiment, sink: str, told: str) -> None:
    folder = used(tmp_path)
    with pytest.raises(SinkError) as refused:
        AppendedFiles(folder, other, sink=sink).open()
    needs = "needs a directory of its own (classArgs.directory)"
    assert str(refused.value) == f"the directory {folder} has {told} {needs}"


def test_it_continues_with_its_own_folder_and_with_that_of_an_earlier_version(tmp_path: Path) -> None:
    folder = used(tmp_path)
    assert AppendedFiles(folder, experiment("abc"), sink="csv").open() == 3
    (folder / CURSOR).write_text(json.dumps({"experiment": "abc", "number": 2}))
    assert AppendedFiles(folder, experiment("abc"), sink="csv").open() == 2
